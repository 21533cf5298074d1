"use strict";
(() => {
  const root = document.documentElement;
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);

  // Figures: the document carries data and sizes, the theme's colours are added here.
  const figures = new Map(all("script[data-figure]").map((data) => [data.dataset.figure, JSON.parse(data.textContent)]));
  const PRINT_WIDTH = 660;

  function layoutOf(figure, element, print) {
    const style = getComputedStyle(root);
    const ink = print ? "#000" : style.getPropertyValue("--ink").trim();
    const line = print ? "#bbb" : style.getPropertyValue("--line").trim();
    const layout = { ...figure.layout, width: print ? PRINT_WIDTH : element.clientWidth };
    layout.font = { family: style.fontFamily, size: 13, color: ink };
    layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
    const title = { ...layout.xaxis.title, font: { size: 12 } };
    layout.yaxis = { ...layout.yaxis, title: { ...layout.yaxis.title, font: { size: 12 } }, gridcolor: line, linecolor: line };
    layout.xaxis = { ...layout.xaxis, title, gridcolor: line, linecolor: line, nticks: layout.width < 480 ? 3 : 6, tickangle: 0 };
    if (layout.width < 480 && layout.xaxis.range) layout.xaxis.dtick = widest(...layout.xaxis.range);
    return layout;
  }

  // The widest round step of which two lie within a range: one alone gives no scale.
  function widest(low, high) {
    const power = 10 ** Math.floor(Math.log10(high - low));
    const lie = (step) => Math.floor(high / step) - Math.ceil(low / step) >= 1;
    return [5, 4, 2.5, 2, 1, 0.5, 0.4, 0.25, 0.2].map((m) => m * power).find(lie);
  }

  function drawOne(id, print = false) {
    const figure = figures.get(id), element = document.getElementById(id);
    if (!print && element.clientWidth === 0) return; // in a panel that is not chosen
    const ink = print ? "#000" : getComputedStyle(root).getPropertyValue("--ink").trim();
    const data = figure.data.map((trace) => (trace.error_x ? { ...trace, error_x: { ...trace.error_x, color: ink } } : trace));
    Plotly.react(element, data, layoutOf(figure, element, print), { staticPlot: true, displayModeBar: false });
    waited.delete(id);
  }

  // What the window shows is drawn at once, the rest when it comes near or when there is nothing else to do; paper has all.
  const waited = new Set(figures.keys());
  const near = (id) => { const { top, bottom } = document.getElementById(id).getBoundingClientRect(); return bottom >= 0 && top <= innerHeight; };
  function draw(print = false) {
    for (const id of figures.keys()) if (print || !waited.has(id) || near(id)) drawOne(id, print);
  }
  const coming = new IntersectionObserver((seen) => {
    for (const { target, isIntersecting } of seen) if (isIntersecting && waited.has(target.id)) drawOne(target.id);
  }, { rootMargin: "50%" });
  for (const [id, figure] of figures) {
    const element = document.getElementById(id);
    element.style.minHeight = `${figure.layout.height}px`; // nothing below it moves when it is drawn
    coming.observe(element);
  }
  // A bar leads to its evidence; the table below has the same links for the keyboard.
  for (const [id, { targets }] of figures) {
    if (!targets) continue;
    const element = document.getElementById(id);
    element.classList.add("leads");
    element.addEventListener("click", (event) => {
      const away = (label) => { const { top, bottom } = label.getBoundingClientRect(); return Math.abs((top + bottom) / 2 - event.clientY); };
      const labels = all(".ytick text", element);
      const place = targets[labels.indexOf(labels.reduce((best, label) => (away(label) < away(best) ? label : best)))];
      if (place) { location.hash = place; document.getElementById(place).focus({ preventScroll: true }); }
    });
  }

  const idle = window.requestIdleCallback || ((work) => setTimeout(work, 50));
  function rest() {
    const [id] = [...waited].filter((one) => document.getElementById(one).clientWidth > 0);
    if (id === undefined) return;
    drawOne(id);
    idle(rest);
  }

  // Theme
  const theme = document.getElementById("theme");
  const nameTheme = () => { const { light, dark, toLight, toDark } = theme.dataset; theme.textContent = isDark() ? light : dark; theme.setAttribute("aria-label", isDark() ? toLight : toDark); };
  theme.hidden = false;
  theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; nameTheme(); draw(); });
  dark.addEventListener("change", () => { nameTheme(); draw(); });
  nameTheme();

  // Metric: one panel at a time on a screen, all of them on paper
  const metric = document.getElementById("metric");
  if (metric) {
    const mark = () => all(".panel, .proof").forEach((panel) => panel.classList.toggle("chosen", (panel.dataset.metric || panel.id) === metric.value));
    metric.closest(".choose").hidden = false;
    document.getElementById("main").classList.add("choosing");
    metric.addEventListener("change", () => { mark(); draw(); });
    mark();
  }

  // Kernel table: categories open and close, columns sort
  const table = document.getElementById("kernel-table");
  const asButton = (span, name) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = name;
    button.textContent = span.textContent;
    span.replaceWith(button);
    return button;
  };
  if (table) {
    for (const span of all(".toggle", table)) {
      if (span.dataset.count === "0") continue;
      const rows = all(".kernel", span.closest("tbody"));
      const button = asButton(span, "toggle-button");
      const open = (state) => { button.setAttribute("aria-expanded", state); rows.forEach((row) => { row.hidden = !state; }); };
      button.addEventListener("click", () => open(button.getAttribute("aria-expanded") !== "true"));
      open(false);
    }
    all(".sort", table).forEach((span, column) => {
      const header = span.closest("th");
      asButton(span, "sort-button").addEventListener("click", () => {
        const down = header.getAttribute("aria-sort") !== "descending";
        all("th[aria-sort]", table).forEach((other) => other.removeAttribute("aria-sort"));
        header.setAttribute("aria-sort", down ? "descending" : "ascending");
        sort(column, down);
      });
    });
  }

  function sort(column, down) {
    const value = (row) => row.children[column].dataset.value;
    const compare = (left, right) => {
      const [a, b] = [value(left), value(right)];
      if (a === "" || b === "") return (a === "") - (b === ""); // not in that run: last either way
      const order = column === 0 ? a.localeCompare(b) : Number(a) - Number(b);
      return down ? -order : order;
    };
    const groups = [...table.tBodies].sort((left, right) => compare(left.rows[0], right.rows[0]));
    for (const group of groups) {
      const kernels = all(".kernel", group).sort(compare);
      group.append(...kernels);
      table.append(group);
    }
  }

  let waiting = 0;
  addEventListener("resize", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(() => draw()); });
  // On paper nothing can be unfolded.
  let folded = [];
  addEventListener("beforeprint", () => { folded = all("details:not([open])"); folded.forEach((part) => { part.open = true; }); draw(true); });
  addEventListener("afterprint", () => { folded.forEach((part) => { part.open = false; }); draw(); });
  draw();
  idle(rest);
  root.dataset.ready = "true";
})();
