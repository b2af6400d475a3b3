// Draws the curves of the last hour on the status page.

const SVG = "http://www.w3.org/2000/svg", HEIGHT = 150, LEFT = 52, RIGHT = 10, TOP = 10, BOTTOM = 24, HOUR = 3600;

function draw_in(svg, name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  svg.append(node);
  return node;
}

// The next round number from `value` up: the end of an axis. Its half is round, too.
function round_up(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 6, 8, 10].map((step) => step * power).find((step) => step >= value);
}

// The parts of a curve between its gaps: moments without a value, and times when the gateway did not run.
function runs(at, values) {
  const all = [];
  let run = [];
  at.forEach((moment, place) => {
    const gap = place > 0 && moment - at[place - 1] > 35;
    if ((gap || values[place] === null) && run.length) { all.push(run); run = []; }
    if (values[place] !== null) run.push([moment, values[place]]);
  });
  return run.length ? [...all, run] : all;
}

// A chart of one hour. `lines` are [class, name, values]; `format` turns a value into the text of an axis, which ends at a
// round number of `unit`s.
function chart(title, at, lines, format, least, unit = 1) {
  const node = document.createElement("figure"), caption = document.createElement("figcaption");
  const legend = lines.map(([kind, name, values]) => {
    const known = values.filter((value) => value !== null), last = values[values.length - 1];
    return el("span", { class: `key ${kind}` }, `${name} ${last === null || last === undefined ? NOTHING : format(last)}`, el("small", null, known.length ? ` max ${format(Math.max(...known))}` : ""));
  });
  caption.append(el("b", null, title), " ", ...legend);
  node.append(caption);
  if (at.length < 2) {
    node.append(el("p", { class: "faint" }, "The curve begins 20 s after the start."));
    return node;
  }
  const width = Math.max(280, Math.floor($("curves").clientWidth / (window.innerWidth > 760 ? 2 : 1)) - 42);
  const svg = document.createElementNS(SVG, "svg"), end = at[at.length - 1], values = lines.flatMap(([, , all]) => all.filter((value) => value !== null));
  const top = round_up(Math.max(least, ...values) / unit) * unit;
  const x = (moment) => LEFT + (width - LEFT - RIGHT) * (1 - (end - moment) / HOUR), y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
  for (const [key, value] of Object.entries({ class: "chart", viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `${title}: ${legend.map((one) => one.textContent).join(", ")}` })) svg.setAttribute(key, value);
  for (const part of [0, 0.5, 1]) {
    draw_in(svg, "line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(part * top), y2: y(part * top) });
    draw_in(svg, "text", { class: "tick", x: LEFT - 6, y: y(part * top) + 4, "text-anchor": "end" }, format(part * top));
  }
  for (const minutes of [60, 45, 30, 15, 0]) {
    const place = x(end - minutes * 60), time = new Date((end - minutes * 60) * 1e3).toLocaleTimeString("sv-SE", { hour: "2-digit", minute: "2-digit" });
    draw_in(svg, "line", { class: "grid", x1: place, x2: place, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM + 4 });
    draw_in(svg, "text", { class: "tick", x: place, y: HEIGHT - 6, "text-anchor": minutes === 0 ? "end" : minutes === 60 ? "start" : "middle" }, time);
  }
  for (const [kind, , all] of lines) {
    for (const run of runs(at, all)) {
      const path = run.map(([moment, value]) => `${x(moment).toFixed(1)} ${y(value).toFixed(1)}`);
      // A single point would not be seen.
      draw_in(svg, "path", { class: `curve ${kind}`, d: `M${path.join(" L")}${run.length === 1 ? " h1" : ""}` });
    }
  }
  node.append(svg);
  return node;
}

// The data of the last drawing: text would be too large or too small in a window that has got another width.
let drawn = null;
addEventListener("resize", () => { if (drawn) curves(drawn); });

function curves(status) {
  const { curves: all } = drawn = status;
  const per_second = (value) => count(value), zone = new Date().toLocaleTimeString("sv-SE", { timeZoneName: "short" }).split(" ").slice(1).join(" ");
  $("zone").textContent = `one point each 10 s; times in ${zone}`;
  put("curves",
    chart("Requests/s", all.at, [["accent", "all", all.requests_per_second], ["bad", "failed", all.failed_per_second]], per_second, 1),
    chart("Latency", all.at, [["bad", "p99", all.p99_ms], ["accent", "p50", all.p50_ms]], (ms) => ms === 0 ? "0" : latency(ms / 1e3), 1),
    chart("In flight", all.at, [["accent", "requests", all.in_flight]], count, 4),
    chart("Open batches", all.at, [["warn", "batches", all.open_batches]], count, 4),
    chart("Memory", all.at, [["accent", "resident", all.resident_bytes]], (value) => value === 0 ? "0" : bytes(value), 1 << 20, 1 << 20),
    chart("Processor", all.at, [["accent", "cores", all.cpu]], (value) => value === 0 ? "0" : value.toFixed(2), 0.1));
}

