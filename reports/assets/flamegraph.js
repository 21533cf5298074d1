"use strict";
(() => {
  const data = JSON.parse(document.getElementById("flame-data").textContent);
  const canvas = document.getElementById("flame");
  const at = document.getElementById("flame-at");
  const found = document.getElementById("flame-found");
  const search = document.getElementById("flame-search");
  const ROW = 18;
  const count = data.name.length;
  const depth = Int32Array.from(data.depth);
  const left = Float64Array.from(data.x);
  const width = Float64Array.from(data.w);
  const different = data.b.length > 0;
  let deepest = 0;
  for (const d of depth) if (d > deepest) deepest = d;
  // Boxes by row, from left to right, for hit tests and for the arrow keys.
  const rows = Array.from({ length: deepest + 1 }, () => []);
  for (let i = 0; i < count; i++) rows[depth[i]].push(i);
  for (const row of rows) row.sort((p, q) => left[p] - left[q]);
  let from = 0, span = width[0] || 1, chosen = 0, wanted = "";

  const say = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
  const label = (i) => data.frames[data.name[i]];
  const amount = (value) => {
    if (data.unit === "s") return seconds(value);
    return `${value.toPrecision(6)} ${data.unit}`.trim();
  };
  const describe = (i) => {
    const share = ((100 * width[i]) / (width[0] || 1)).toFixed(2);
    const per = data.per ? ` ${data.per}` : "";
    if (!different) return say(data.words.one, { name: label(i), own: amount(data.a[i]) + per, share: `${share}%` });
    return say(data.words.two, { name: label(i), first: amount(data.a[i]), a: data.names[0], second: amount(data.b[i]), b: data.names[1] }) + per;
  };
  // A fixed colour a name, warm; differences in red and blue, told apart by lightness too.
  const hues = new Map();
  const colour = (i, dark) => {
    if (different) {
      const size = Math.max(data.a[i], data.b[i]) || 1;
      const change = (data.b[i] - data.a[i]) / size;
      const strength = Math.min(Math.abs(change) * 2, 1);
      if (strength < 0.02) return dark ? "#3a3f47" : "#e6e8eb";
      const light = dark ? 32 + 12 * strength : 88 - 30 * strength;
      return change > 0 ? `hsl(14 ${40 + 45 * strength}% ${light}%)` : `hsl(214 ${40 + 45 * strength}% ${light}%)`;
    }
    const name = data.name[i];
    if (!hues.has(name)) {
      let hash = 0;
      for (const c of label(i)) hash = (hash * 31 + c.charCodeAt(0)) | 0;
      hues.set(name, [(Math.abs(hash) % 46) + 8, (Math.abs(hash >> 8) % 12)]);
    }
    const [hue, shade] = hues.get(name);
    return `hsl(${hue} 70% ${dark ? 34 + shade : 72 + shade}%)`;
  };
  const draw = surface(canvas, () => (deepest + 1) * ROW + 2, (context, wide, theme) => {
    const { dark, ink, accent, paper } = theme;
    const scale = wide / span;
    for (let i = 0; i < count; i++) {
      const x = (left[i] - from) * scale, w = width[i] * scale;
      if (w < 0.4 || x + w < 0 || x > wide) continue;
      const y = depth[i] * ROW, shownX = Math.max(x, 0), shownW = Math.min(x + w, wide) - shownX;
      const hit = wanted && label(i).toLowerCase().includes(wanted);
      context.fillStyle = hit ? accent : colour(i, dark);
      context.fillRect(shownX, y, Math.max(shownW - 0.5, 0.4), ROW - 1);
      if (different && (data.a[i] === 0 || data.b[i] === 0) && shownW > 3) {
        context.strokeStyle = ink;
        context.globalAlpha = 0.35;
        context.beginPath();
        for (let s = 0; s < shownW; s += 6) {
          context.moveTo(shownX + s, y + ROW - 1);
          context.lineTo(Math.min(shownX + s + ROW, shownX + shownW), y + Math.max(0, ROW - 1 - Math.min(ROW, shownW - s)));
        }
        context.stroke();
        context.globalAlpha = 1;
      }
      if (i === chosen) {
        context.strokeStyle = ink;
        context.strokeRect(shownX + 0.5, y + 0.5, Math.max(shownW - 1.5, 0.5), ROW - 2);
      }
      if (shownW > 24) {
        context.fillStyle = hit ? paper : ink;
        context.fillText(fitted(context, label(i), shownW - 6), shownX + 3, y + ROW / 2);
      }
    }
  });

  function box(event) {
    const area = canvas.getBoundingClientRect();
    const row = rows[Math.floor((event.clientY - area.top) / ROW)];
    if (!row) return -1;
    const x = from + ((event.clientX - area.left) / area.width) * span;
    let low = 0, high = row.length - 1, best = -1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      if (left[row[middle]] <= x) { best = row[middle]; low = middle + 1; } else high = middle - 1;
    }
    return best >= 0 && x <= left[best] + width[best] ? best : -1;
  }
  function choose(i) { if (i >= 0) { chosen = i; at.textContent = describe(i); draw(); } }
  function zoom(i) { if (i < 0) return; from = left[i]; span = width[i] || 1; choose(i); canvas.dataset.zoomed = String(i); }
  const parentOf = (i) => (depth[i] === 0 ? i : rows[depth[i] - 1].find((p) => left[p] <= left[i] + 1e-9 && left[p] + width[p] >= left[i] + width[i] - 1e-9) ?? i);
  const childOf = (i) => (rows[depth[i] + 1] || []).find((c) => left[c] >= left[i] - 1e-9 && left[c] < left[i] + width[i]) ?? i;
  const besideOf = (i, step) => rows[depth[i]][rows[depth[i]].indexOf(i) + step] ?? i;

  canvas.addEventListener("mousemove", (event) => { const i = box(event); if (i >= 0) at.textContent = describe(i); });
  canvas.addEventListener("click", (event) => zoom(box(event)));
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowUp: () => choose(parentOf(chosen)), ArrowDown: () => choose(childOf(chosen)),
      ArrowLeft: () => choose(besideOf(chosen, -1)), ArrowRight: () => choose(besideOf(chosen, 1)),
      Enter: () => zoom(chosen), Escape: () => zoom(0), "/": () => search.focus() };
    if (moves[event.key]) { event.preventDefault(); moves[event.key](); }
  });
  document.getElementById("flame-out").addEventListener("click", () => zoom(0));
  search.addEventListener("input", () => {
    wanted = search.value.trim().toLowerCase();
    // Boxes inside a box that matched are part of it.
    let share = 0, boxes = 0, until = -1;
    if (wanted) {
      const order = [...Array(count).keys()].sort((p, q) => left[p] - left[q] || depth[p] - depth[q]);
      for (const i of order) {
        if (!label(i).toLowerCase().includes(wanted)) continue;
        boxes++;
        if (left[i] >= until - 1e-9) { share += width[i]; until = left[i] + width[i]; }
      }
    }
    found.textContent = wanted ? say(data.words.found, { count: boxes.toLocaleString("en"), share: `${((100 * share) / (width[0] || 1)).toFixed(2)}%` }) : "";
    draw();
  });
  zoom(0);
  canvas.dataset.ready = String(count);
})();
