// What pages do beyond what they show without scripts: graphs, the slider of versions, and lines that are kept open.
"use strict";

const COLORS = { mean: "--line", low: "--band", high: "--band", marks: "--bad" };

// A canvas knows no variables: the browser computes the color of an element.
function color(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const computed = getComputedStyle(probe).color;
  probe.remove();
  return computed;
}

// Times without values are hatched.
function hatch(plot, gaps) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.strokeStyle = color("--rule");
  for (const [from, to] of gaps) {
    const [left, right] = [plot.valToPos(from, "x", true), plot.valToPos(to, "x", true)];
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, bbox.top, right - left, bbox.height);
    ctx.clip();
    ctx.beginPath();
    for (let x = left - bbox.height; x < right; x += 8) {
      ctx.moveTo(x, bbox.top + bbox.height);
      ctx.lineTo(x + bbox.height, bbox.top);
    }
    ctx.stroke();
    ctx.restore();
  }
  ctx.restore();
}

function draw(figure) {
  const data = JSON.parse(figure.dataset.graph);
  const canvas = figure.querySelector(".canvas");
  if (!data.times.length || typeof uPlot === "undefined") return;
  const zone = data.zone;
  const lines = data.lines.map((line, n) => ({
    label: line.label,
    stroke: color(COLORS[line.role] || `--line${(n % 4) + 1}`),
    width: line.role === "marks" ? 0 : line.role === "mean" ? 2 : 1,
    spanGaps: false,
    points: { show: line.role === "marks" || (line.role === "mean" && data.times.length < 60) },
    value: (_, value) => (value === null || value === undefined ? "-" : `${value} ${data.unit}`),
  }));
  const low = data.lines.findIndex((line) => line.role === "low");
  const high = data.lines.findIndex((line) => line.role === "high");
  const axis = { stroke: color("--text"), grid: { stroke: color("--rule") }, ticks: { stroke: color("--rule") } };
  const options = {
    width: canvas.clientWidth || 320,
    height: 240,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), zone),
    series: [{ value: (_, at) => (at === null ? "-" : shownTime(at, zone)) }, ...lines],
    axes: [axis, axis],
    bands: low >= 0 && high >= 0 ? [{ series: [high + 1, low + 1], fill: color("--fill") }] : [],
    cursor: { drag: { x: true, y: false, setScale: !data.zoom.length } },
    hooks: { setSelect: [(plot) => zoom(plot, data.zoom)], drawAxes: [(plot) => hatch(plot, data.gaps)] },
  };
  canvas.replaceChildren();
  const plot = new uPlot(options, [data.times, ...data.lines.map((line) => line.values)], canvas);
  new ResizeObserver(() => plot.setSize({ width: canvas.clientWidth, height: 240 })).observe(canvas);
}

function shownTime(seconds, zone) {
  return new Date(seconds * 1000).toLocaleString("sv-SE", { timeZone: zone });
}

// The selected part is asked for again: the service then answers with finer values.
function zoom(plot, names) {
  if (!names.length || plot.select.width < 5) return;
  const [from, to] = [plot.select.left, plot.select.left + plot.select.width].map((x) =>
    new Date(plot.posToVal(x, "x") * 1000).toISOString().replace(/\.\d+Z$/, "Z"),
  );
  const url = new URL(location.href);
  url.searchParams.set(names[0], from);
  url.searchParams.set(names[1], to);
  location.assign(url);
}

function slide(form) {
  const versions = form.dataset.versions.split(" ");
  const range = form.querySelector("input[type=range]");
  const shown = form.querySelector("output code");
  range.addEventListener("input", () => (shown.textContent = versions[range.value]));
  range.addEventListener("change", () => {
    form.querySelector("input[name=at-version]").value = versions[range.value];
    form.submit();
  });
}

// A part that is replaced keeps the details that the reader has opened.
document.addEventListener("htmx:sseBeforeMessage", (event) => {
  const part = event.target;
  const open = [...part.querySelectorAll("details")].map((one) => one.open);
  part.addEventListener("htmx:sseMessage", () => part.querySelectorAll("details").forEach((one, n) => (one.open = !!open[n])), {
    once: true,
  });
});

document.querySelectorAll("figure.graph").forEach(draw);
document.querySelectorAll("form.slider").forEach(slide);
