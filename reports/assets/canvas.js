"use strict";
// A canvas as wide as its place, sharp on every screen and in the page's colours; drawn again when any of that changes.
function surface(canvas, height, paint) {
  const context = canvas.getContext("2d");
  const PAPER = { dark: false, ink: "#000", soft: "#444", line: "#bbb", accent: "#000", paper: "#fff" };
  const draw = (print = false) => {
    const ratio = window.devicePixelRatio || 1;
    const wide = canvas.parentElement.clientWidth, high = height(wide);
    if (wide === 0) return;
    canvas.style.width = `${wide}px`;
    canvas.style.height = `${high}px`;
    canvas.width = Math.round(wide * ratio);
    canvas.height = Math.round(high * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    paint(context, wide, print ? PAPER : {
      dark: style.colorScheme.trim() === "dark",
      ink: colour("--ink"), soft: colour("--soft"), line: colour("--line"), accent: colour("--accent"), paper: colour("--paper"),
    });
  };
  const again = () => draw();
  window.addEventListener("resize", again);
  window.addEventListener("beforeprint", () => draw(true));
  window.addEventListener("afterprint", again);
  document.getElementById("theme").addEventListener("click", again);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  return again;
}
// A text that fits into so many pixels, or as much of it as does.
function fitted(context, text, pixels) {
  const wide = context.measureText(text).width;
  return wide <= pixels ? text : `${text.slice(0, Math.max(Math.floor((text.length * pixels) / wide) - 1, 1))}…`;
}
// Seconds in the unit that suits them.
function seconds(value) {
  if (value === 0) return "0 s";
  const steps = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
  const [size, unit] = steps.find(([s]) => Math.abs(value) >= s) || steps[3];
  return `${Number((value / size).toPrecision(4))} ${unit}`;
}
