"use strict";
// Colours of their own for each kind of row, so that none means two things; what has no colour left is grey. Okabe-Ito's
// on the device, Tol's muted ones on the host. One colour a group on the whole page, the longest first.
const stepColours = (() => {
  const COLOURS = { device: ["#0072B2", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#CC79A7", "#D55E00"],
    host: ["#332288", "#44AA99", "#DDCC77", "#882255", "#999933", "#AA4499"], launch: ["#59636E", "#98A2AC", "#C3CAD1"],
    idle: ["#BB5566", "#7A6A3A", "#4A7A6A", "#8A6AAA"] }, REST = "#999999";
  const totals = new Map(), colours = new Map();
  for (const script of document.querySelectorAll("script[data-steps]")) {
    for (const lane of JSON.parse(script.textContent).sides.flatMap((side) => side.lanes)) {
      lane.busy.forEach((busy, i) => {
        const key = `${lane.kind} ${lane.groups[lane.group[i]]}`;
        totals.set(key, (totals.get(key) || 0) + busy);
      });
    }
  }
  for (const kind of ["host", "launch", "device", "idle"]) {
    const keys = [...totals.keys()].filter((key) => key.startsWith(`${kind} `)).sort((p, q) => totals.get(q) - totals.get(p));
    keys.forEach((key, i) => colours.set(key, COLOURS[kind][i] || REST));
  }
  return colours;
})();
for (const script of document.querySelectorAll("script[data-steps]")) {
  const data = JSON.parse(script.textContent);
  const place = document.getElementById(script.dataset.steps);
  const canvas = place.querySelector("canvas"), at = place.querySelector("output"), legend = place.querySelector(".legend");
  const HEAD = 26, LABEL = 16, BAR = 20, GAP = 7, AXIS = 26;
  const dark = (hex) => [1, 3, 5].reduce((sum, at, i) => sum + parseInt(hex.slice(at, at + 2), 16) * [0.299, 0.587, 0.114][i], 0) < 110;
  const say = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
  const time = (ns) => seconds(ns / 1e9);

  // Rows from top to bottom, each with its bars from left to right.
  const rows = [], heads = [], shown = new Set();
  let high = 0;
  data.sides.forEach((side, index) => {
    heads.push({ y: high, text: side.title });
    high += HEAD;
    for (const lane of side.lanes) {
      const bars = lane.start.map((start, i) => ({ start, end: start + lane.length[i], group: lane.groups[lane.group[i]],
        name: lane.name[i] < 0 ? "" : side.names[lane.name[i]], count: lane.count[i], busy: lane.busy[i] }));
      rows.push({ side: index, kind: lane.kind, title: lane.title, y: high + LABEL, bars });
      for (const bar of bars) shown.add(`${lane.kind} ${bar.group}`);
      high += LABEL + BAR + GAP;
    }
    high += GAP;
  });
  const colour = (row, bar) => stepColours.get(`${row.kind} ${bar.group}`);
  const first = Math.min(...rows.flatMap((row) => row.bars.map((bar) => bar.start)));
  const last = Math.max(...rows.flatMap((row) => row.bars.map((bar) => bar.end)));
  const pad = (last - first) * 0.005;
  let from = first - pad, to = last + pad, line = Math.max(rows.findIndex((row) => row.kind === "device"), 0), chosen = 0;

  const describe = (row, bar) => {
    const values = { run: data.sides[row.side].name, row: row.title, group: bar.group, name: bar.name, count: bar.count.toLocaleString("en"),
      busy: time(bar.busy), length: time(bar.end - bar.start), at: time(bar.start) };
    return say(bar.count > 1 ? data.words.joined : bar.name === bar.group ? data.words.plain : data.words.one, values);
  };

  const draw = surface(canvas, () => high + AXIS, (context, wide, theme) => {
    const scale = wide / (to - from);
    context.clearRect(0, 0, wide, high + AXIS);
    ticks(context, wide, scale, theme);
    // Titles stand on the page's own colour: the lines of the scale end before them.
    const title = (text, y, ink) => {
      const shown = fitted(context, text, wide - 4);
      context.fillStyle = theme.paper;
      context.fillRect(0, y - 7, context.measureText(shown).width + 4, 15);
      context.fillStyle = ink;
      context.fillText(shown, 0, y);
    };
    context.font = "600 13px system-ui, sans-serif";
    for (const head of heads) title(head.text, head.y + HEAD / 2, theme.ink);
    context.font = "12px system-ui, sans-serif";
    rows.forEach((row, number) => {
      title(row.title, row.y - LABEL / 2, theme.soft);
      row.bars.forEach((bar, i) => {
        const x = Math.max((bar.start - from) * scale, 0), w = Math.min((bar.end - from) * scale, wide) - x;
        if (w <= 0) return;
        // Several short events are as high as the part of the time that they fill.
        const tall = bar.count > 1 ? BAR * Math.max(bar.busy / (bar.end - bar.start), 0.25) : BAR, y = row.y + BAR - tall;
        context.fillStyle = colour(row, bar);
        context.fillRect(x, y, Math.max(w - 0.5, 0.6), tall);
        if (row.kind === "idle") hatch(context, x, y, w, tall, theme.paper);
        if (number === line && i === chosen) {
          context.strokeStyle = theme.ink;
          context.lineWidth = 2;
          context.strokeRect(x, row.y - 1, Math.max(w, 2), BAR + 2);
          context.lineWidth = 1;
        }
        if (w > 30 && tall > 14 && row.kind !== "idle") {
          context.fillStyle = dark(colour(row, bar)) ? "#fff" : "#000";
          context.fillText(fitted(context, bar.name || bar.group, w - 6), x + 3, row.y + BAR / 2 + 1);
        }
      });
    });
  });

  function hatch(context, x, y, w, tall, paper) {
    context.save();
    context.beginPath();
    context.rect(x, y, w, tall);
    context.clip();
    context.strokeStyle = paper;
    context.beginPath();
    for (let s = -tall; s < w; s += 5) { context.moveTo(x + s, y + tall); context.lineTo(x + s + tall, y); }
    context.stroke();
    context.restore();
  }

  function ticks(context, wide, scale, theme) {
    const least = (to - from) / Math.max(wide / 90, 2), power = 10 ** Math.floor(Math.log10(least));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= least);
    context.fillStyle = theme.soft;
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      const x = (t - from) * scale;
      context.strokeStyle = Math.abs(t) < step / 2 ? theme.soft : theme.line;
      context.beginPath();
      context.moveTo(x, 0);
      context.lineTo(x, high);
      context.stroke();
      const text = Math.abs(t) < step / 2 ? "0" : time(t), room = context.measureText(text).width;
      context.fillText(text, Math.min(Math.max(x - room / 2, 0), wide - room), high + AXIS / 2);
    }
  }

  const clamp = () => {
    const span = Math.min(to - from, last - first + 2 * pad);
    from = Math.min(Math.max(from, first - pad), last + pad - span);
    to = from + span;
    canvas.dataset.span = String(Math.round(to - from));
  };
  const show = (middle, span) => { from = middle - span / 2; to = middle + span / 2; clamp(); draw(); };
  const zoom = (factor) => { const bar = rows[line].bars[chosen], m = (bar.start + bar.end) / 2;
    show(m >= from && m <= to ? m : (from + to) / 2, Math.max((to - from) * factor, 100)); };
  function choose(row, i) {
    line = row;
    chosen = Math.min(Math.max(i, 0), rows[row].bars.length - 1);
    const bar = rows[line].bars[chosen];
    at.textContent = describe(rows[line], bar);
    if (bar.end < from || bar.start > to) show((bar.start + bar.end) / 2, to - from); else draw();
  }
  const near = (row, t) => rows[row].bars.reduce((best, bar, i, bars) => {
    const off = (b) => Math.max(b.start - t, t - b.end, 0);
    return off(bar) < off(bars[best]) ? i : best;
  }, 0);
  const middle = () => { const bar = rows[line].bars[chosen]; return (bar.start + bar.end) / 2; };
  const beside = (step) => { const row = Math.min(Math.max(line + step, 0), rows.length - 1); choose(row, near(row, middle())); };
  const closer = () => { const bar = rows[line].bars[chosen]; show(middle(), Math.max((bar.end - bar.start) * 8, 100)); };
  const whole = () => show((first + last) / 2, last - first + 2 * pad);

  const under = (event) => {
    const area = canvas.getBoundingClientRect(), y = event.clientY - area.top;
    const row = rows.findIndex((r) => y >= r.y - 2 && y <= r.y + BAR + 2);
    return row < 0 ? null : [row, near(row, from + ((event.clientX - area.left) / area.width) * (to - from))];
  };
  let held = null;
  canvas.addEventListener("pointerdown", (event) => { held = { x: event.clientX, from, span: to - from }; });
  window.addEventListener("pointerup", () => { held = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (held) {
      from = held.from - ((event.clientX - held.x) / canvas.clientWidth) * held.span;
      to = from + held.span;
      clamp();
      draw();
      return;
    }
    const found = under(event);
    if (found) at.textContent = describe(rows[found[0]], rows[found[0]].bars[found[1]]);
  });
  canvas.addEventListener("click", (event) => { const found = under(event); if (found) choose(...found); });
  canvas.addEventListener("dblclick", (event) => { const found = under(event); if (found) { choose(...found); closer(); } });
  canvas.addEventListener("wheel", (event) => { if (event.ctrlKey) { event.preventDefault(); zoom(event.deltaY > 0 ? 1.25 : 0.8); } }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowUp: () => beside(-1), ArrowDown: () => beside(1), ArrowLeft: () => choose(line, chosen - 1),
      ArrowRight: () => choose(line, chosen + 1), Home: () => choose(line, 0), End: () => choose(line, Infinity),
      Enter: closer, Escape: whole, "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2) };
    if (moves[event.key] && !event.ctrlKey && !event.metaKey) { event.preventDefault(); moves[event.key](); }
  });
  place.querySelector("[data-do=in]").addEventListener("click", () => zoom(0.5));
  place.querySelector("[data-do=out]").addEventListener("click", () => zoom(2));
  place.querySelector("[data-do=whole]").addEventListener("click", whole);

  // A cause's evidence leads to its moment.
  for (const link of document.querySelectorAll(`a.moment[href="#${place.id}"]`)) {
    link.addEventListener("click", () => {
      const t = Number(link.dataset.at), side = Number(link.dataset.side);
      const fits = rows.map((row, number) => ({ row, number })).filter(({ row }) => row.side === side && row.kind === link.dataset.kind);
      const best = fits.map(({ row, number }) => [number, near(number, t)]).sort(([p, i], [q, j]) => off(p, i, t) - off(q, j, t))[0];
      if (best) {
        choose(...best);
        const bar = rows[line].bars[chosen];
        show(t, Math.max(Number(link.dataset.length) * 8, (bar.end - bar.start) * 3, 100));
      }
      setTimeout(() => canvas.focus({ preventScroll: true })); // following the link takes the focus away first
    });
  }
  function off(row, i, t) { const bar = rows[row].bars[i]; return Math.max(bar.start - t, t - bar.end, 0); }

  for (const kind of ["device", "host", "launch", "idle"]) {
    const mine = [...stepColours].filter(([key]) => shown.has(key) && key.startsWith(`${kind} `));
    if (!mine.length) continue;
    const line = document.createElement("span");
    line.append(`${data.legend[kind]}: `);
    for (const [key, ink] of mine) {
      const item = document.createElement("span"), swatch = document.createElement("span");
      swatch.className = kind === "idle" ? "swatch hatched" : "swatch";
      swatch.style.backgroundColor = ink;
      item.append(swatch, key.slice(kind.length + 1));
      line.append(item);
    }
    legend.append(line);
  }
  canvas.hidden = false;
  place.querySelector(".flamebar").hidden = false;
  whole();
  choose(line, 0);
  canvas.dataset.ready = String(rows.length);
}
