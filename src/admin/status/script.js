"use strict";
// Reads the admin pages every few seconds and draws them. Nothing that the gateway says becomes markup: all of it goes
// through `textContent`.
const EVERY = 3000, PATIENCE = 5000, WINDOW = 60e3, KEPT = 600e3, LISTED = 12, BATCHES = 30;
const $ = (id) => document.getElementById(id);
let token = sessionStorage.getItem("admin-token"), samples = [], answered = null, timer = null, asking = false;

// ---- drawing

function el(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) if (value) node.setAttribute(key, value);
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

const put = (id, ...nodes) => $(id).replaceChildren(...nodes);
const word = (level, text) => el("span", { class: level }, el("span", { class: "dot" }), el("b", null, text));

function table(columns, rows) {
  const head = columns.map(([name, kind]) => el("th", { class: kind === "n" ? "n" : "" }, name));
  const cell = (value, place) => {
    const [name, kind] = columns[place], level = (value && value.level) || "";
    const content = value instanceof Node || Array.isArray(value) ? value : String(value && value.level !== undefined ? value.text : value);
    return el("td", { class: `${kind} ${level}`, "data-name": name }, ...[content].flat());
  };
  const body = rows.map((row) => el("tr", null, ...row.map(cell)));
  return el("table", null, el("thead", null, el("tr", null, ...head)), el("tbody", null, ...body));
}

function spark(values) {
  const ns = "http://www.w3.org/2000/svg", svg = document.createElementNS(ns, "svg");
  svg.setAttribute("class", "spark");
  svg.setAttribute("viewBox", "0 0 100 28");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  if (values.length < 2) return svg;
  const top = Math.max(...values, 1e-9), step = 100 / (values.length - 1);
  const line = values.map((value, at) => `${(at * step).toFixed(2)} ${(26.5 - 24 * value / top).toFixed(2)}`).join(" L");
  for (const [kind, path] of [["under", `M0 28 L${line} L100 28Z`], ["", `M${line}`]]) {
    const drawn = document.createElementNS(ns, "path");
    drawn.setAttribute("class", kind);
    drawn.setAttribute("d", path);
    svg.append(drawn);
  }
  return svg;
}

function tile(name, number, unit, below, level, drawing) {
  return el("div", { class: `tile ${level || ""}` }, el("h3", null, name),
    el("div", { class: "number" }, number, unit ? el("span", { class: "unit" }, unit) : null),
    below ? el("p", null, below) : null, drawing);
}

// ---- numbers in words

const NOTHING = "–";
const none = (value) => value === null || Number.isNaN(value);
function count(value) {
  if (none(value)) return NOTHING;
  if (value >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  if (value >= 1e4) return `${(value / 1e3).toFixed(1)} k`;
  return value >= 100 || Number.isInteger(value) ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}
function latency(seconds) {
  if (none(seconds)) return NOTHING;
  const ms = seconds * 1e3;
  return ms < 1 ? `${ms.toFixed(2)} ms` : ms < 10 ? `${ms.toFixed(1)} ms` : ms < 1e3 ? `${ms.toFixed(0)} ms` : `${seconds.toFixed(1)} s`;
}
function age(seconds) {
  if (none(seconds) || !Number.isFinite(seconds)) return "never";
  const units = [[86400, "d"], [3600, "h"], [60, "min"]];
  for (const [size, unit] of units) if (seconds >= 2 * size) return `${Math.floor(seconds / size)} ${unit}`;
  return `${Math.floor(seconds)} s`;
}
const moment = (millis) => new Date(millis).toLocaleString("sv-SE");   // 2026-11-21 14:57:46
const share = (part, whole) => none(part) || !whole ? NOTHING : part === 0 ? "0 %" : part / whole < 0.0001 ? "< 0.01 %" : `${(100 * part / whole).toFixed(2)} %`;
const erring = (part, whole) => !whole || !part ? "" : part / whole >= 0.05 ? "bad" : "warn";

// ---- what /metrics says

const REQUESTS = "nsgate_requests_total", FAILED = { code: /^5/ };
const UNESCAPED = { "\\\\": "\\", '\\"': '"', "\\n": "\n" };
function parse(text) {
  const families = new Map();
  for (const line of text.split("\n")) {
    const found = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!found) continue;
    const labels = {};
    for (const [, name, value] of (found[2] || "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
      labels[name] = value.replace(/\\[\\"n]/g, (escaped) => UNESCAPED[escaped]);
    }
    const value = /^\+?inf$/i.test(found[3]) ? Infinity : Number(found[3]);
    if (!families.has(found[1])) families.set(found[1], []);
    families.get(found[1]).push({ labels, value });
  }
  return families;
}

const fits = (labels, wanted) => Object.entries(wanted).every(([name, value]) => value instanceof RegExp ? value.test(labels[name]) : labels[name] === value);
function sum(families, name, wanted = {}) {
  let total = 0;
  for (const { labels, value } of families.get(name) || []) if (fits(labels, wanted)) total += value;
  return total;
}
function values(families, name, label) {
  return [...new Set((families.get(name) || []).map(({ labels }) => labels[label]))];
}

// What is drawn as a line: one sample's change from the one before.
function figures(now, before) {
  if (!before) return {};
  const seconds = (now.at - before.at) / 1e3, change = (wanted) => Math.max(0, sum(now.families, REQUESTS, wanted) - sum(before.families, REQUESTS, wanted)) / seconds;
  const [, , p99] = quantiles(before.families, now.families, "nsgate_request_duration_seconds_bucket", {});
  return { rate: change({}), failed: change(FAILED), p99: p99 || 0, in_flight: sum(now.families, "nsgate_requests_in_flight") };
}

// A window over the samples: what changed between the first and the last of it.
function window_() {
  const last = samples[samples.length - 1];
  const first = samples.find(({ at }) => at >= last.at - WINDOW);
  const seconds = (last.at - first.at) / 1e3;
  return {
    seconds,
    rate: (name, wanted) => seconds < 0.5 ? null : (sum(last.families, name, wanted) - sum(first.families, name, wanted)) / seconds,
    quantiles: (name, wanted) => seconds < 0.5 ? [null, null, null] : quantiles(first.families, last.families, `${name}_bucket`, wanted),
  };
}

// As Prometheus estimates them: linear within the bucket.
function quantiles(before, after, name, wanted) {
  const buckets = new Map();
  for (const [families, sign] of [[after, 1], [before, -1]]) {
    for (const { labels, value } of families.get(name) || []) {
      if (!fits(labels, wanted)) continue;
      const bound = labels.le === "+Inf" ? Infinity : Number(labels.le);
      buckets.set(bound, (buckets.get(bound) || 0) + sign * value);
    }
  }
  const bounds = [...buckets].sort(([a], [b]) => a - b), total = bounds.length ? bounds[bounds.length - 1][1] : 0;
  return [0.5, 0.95, 0.99].map((part) => {
    if (total <= 0) return null;
    const place = bounds.findIndex(([, under]) => under >= part * total);
    const [low, below] = place > 0 ? bounds[place - 1] : [0, 0], [high, under] = bounds[place];
    return high === Infinity ? low : low + (high - low) * (part * total - below) / (under - below);
  });
}

// ---- the parts of the page

function tiles(now, seen, batches) {
  const { families } = now, all = seen.rate(REQUESTS), failed = seen.rate(REQUESTS, FAILED);
  const [p50, p95, p99] = seen.quantiles("nsgate_request_duration_seconds", {});
  const refused = seen.rate(REQUESTS, { code: /^(401|403)$/ }), shed = seen.rate(REQUESTS, { backend: "none", code: /^(429|503)$/ });
  const listed = (state) => batches.batches.filter((batch) => batch.state === state).length;
  // The list is that of the gateway that runs batches, the metrics are this one's.
  const hazards = Math.max(sum(families, "nsgate_batch_hazards"), listed("hazard")), undecided = Math.max(sum(families, "nsgate_batches_undecided"), listed("undecided")), open = batches.batches.length + batches.more;
  const drawn = (figure) => spark(samples.slice(1).map((sample) => sample.figures[figure]));
  put("tiles",
    tile("Requests", count(all), "/s", `${count(sum(families, REQUESTS))} since the start`, "", drawn("rate")),
    tile("Server errors", share(failed, all), "", `${count(failed)} /s`, erring(failed, all), drawn("failed")),
    tile("Latency", latency(p99), "p99", `p50 ${latency(p50)} · p95 ${latency(p95)}`, "", drawn("p99")),
    tile("In flight", count(sum(families, "nsgate_requests_in_flight")), "", `${count(sum(families, "nsgate_connections"))} connections`, "", drawn("in_flight")),
    tile("Turned away", count(none(refused) ? null : refused + shed), "/s", `denied ${count(refused)} · shed ${count(shed)}`, shed ? "warn" : ""),
    tile("Batches", count(undecided), "undecided", hazards ? `${count(hazards)} wait for an operator` : `${count(open)} open, no hazard`, hazards ? "bad" : ""));
}

function name_of(names) {
  return names.length ? names.join("$") : "(everything else)";
}

const serves = (one) => one.up && one.breaker === "closed";

function address(one) {
  const words = !one.up ? `down: ${one.error || "no answer"}`
    : one.breaker === "closed" ? `${one.in_flight} in flight` : `no requests sent, circuit breaker ${one.breaker}`;
  return el("span", { class: `sub ${serves(one) ? "" : "bad"}` }, `${one.address}: ${words}`);
}

function catalogs(now, seen, backends) {
  const rows = backends.map((backend) => {
    const of = { backend: backend.name }, all = seen.rate(REQUESTS, of), failed = seen.rate(REQUESTS, { ...of, ...FAILED });
    const [p50, p95, p99] = seen.quantiles("nsgate_upstream_duration_seconds", of);
    const addresses = backend.endpoints || [], serving = addresses.filter(serves).length;
    const state = !backend.up ? word("bad", "down")
      : serving < addresses.length ? word("warn", `${serving} of ${addresses.length} addresses`) : word("good", "up");
    const managed = backend.managed_versioning, set = backend.managed_versioning_setting === "set";
    const versions = el("span", { class: `sub ${managed === "no" && !set ? "bad" : ""}` }, `managed versioning: ${managed}${set ? " (set)" : ""}`);
    const mounts = backend.mounts.map(({ namespace, backend_namespace: theirs }) => {
      const kept = namespace.join("$") === theirs.join("$");
      return el("span", { class: "sub" }, el("code", null, name_of(namespace)), kept ? "" : ` → ${theirs.length ? theirs.join("$") : "its root"}`);
    });
    return [
      [el("b", null, backend.name), " ", el("span", { class: "faint" }, backend.implementation), ...mounts],
      [state, ...(backend.error && !addresses.length ? [el("span", { class: "sub bad" }, backend.error)] : []), ...addresses.map(address), versions],
      count(all), { level: erring(failed, all), text: share(failed, all) }, latency(p50), latency(p95), latency(p99),
    ];
  });
  put("catalogs", table([["catalog", "wide"], ["state", "wide"], ["req/s", "n"], ["errors", "n"], ["p50", "n"], ["p95", "n"], ["p99", "n"]], rows));
}

function operations(now, seen) {
  const rows = values(now.families, REQUESTS, "operation").map((operation) => ({ operation, all: seen.rate(REQUESTS, { operation }) }))
    .filter(({ all }) => all > 0).sort((a, b) => b.all - a.all).slice(0, LISTED)
    .map(({ operation, all }) => {
      const failed = seen.rate(REQUESTS, { operation, ...FAILED }), [p50, p95, p99] = seen.quantiles("nsgate_request_duration_seconds", { operation });
      return [el("code", null, operation), count(all), { level: erring(failed, all), text: share(failed, all) }, latency(p50), latency(p95), latency(p99)];
    });
  const columns = [["operation", "wide"], ["req/s", "n"], ["errors", "n"], ["p50", "n"], ["p95", "n"], ["p99", "n"]];
  put("operations", rows.length ? table(columns, rows) : el("p", { class: "empty" }, seen.seconds < 0.5 ? "Counting…" : "No requests in the last minute."));
}

const STANDING = { hazard: "bad", stranded: "bad", undecided: "warn", undoing: "warn", committed: "good", watching: "good" };

function batches({ batches: open, more, unknown }) {
  if (unknown) return put("batches", el("p", { class: "empty text-bad" }, `Not known: ${unknown}`));
  if (!open.length) return put("batches", el("p", { class: "empty" }, "None: every batch is finished."));
  const rows = open.slice(0, BATCHES).map((batch) => [
    [el("code", null, batch.id), el("span", { class: "sub" }, `waits for ${batch.waits_for}`)],
    word(STANDING[batch.state], batch.state), age(batch.age_seconds), batch.entries.length,
    [...new Set(batch.entries.map((entry) => entry.backend))].join(", "),
  ]);
  const columns = [["batch", "wide"], ["state", ""], ["age", "n"], ["changes", "n"], ["catalogs", "wide"]];
  const rest = open.length + more - rows.length;
  const act = open.some(({ state }) => state === "hazard" || state === "stranded");
  put("batches", table(columns, rows),
    rest || act ? el("p", { class: "faint more" }, rest ? `and ${rest} more. ` : "", act ? "What to do: nsgate batches show ID" : "") : "");
}

// Gateways that share a log. One that is silent for half of its lease is marked.
function gateways({ shared, gateways }) {
  $("gateways-section").hidden = !shared;
  if (!shared) return;
  const rows = gateways.map((one) => {
    const late = one.silent_millis > one.lease_millis / 2;
    const state = late ? { level: "bad", text: `silent for ${age(one.silent_millis / 1e3)}` }
      : one.routes_differ ? { level: "bad", text: "other mounts or catalogs than here" } : { level: "good", text: "alive" };
    return [one.name + (one.is_this ? " (this one)" : ""), state, one.is_owner ? "runs batches" : "passes batches on", one.address || NOTHING, one.version];
  });
  put("gateways", table([["gateway", "wide"], ["state", ""], ["part", ""], ["address for the others", "wide"], ["version", ""]], rows));
}

function keys({ families }) {
  const rows = (families.get("nsgate_keys_age_seconds") || []).map(({ labels: { issuer }, value }) => {
    const failed = sum(families, "nsgate_key_refreshes_total", { issuer, result: "failure" }), got = sum(families, "nsgate_key_refreshes_total", { issuer, result: "success" });
    return [issuer, { level: Number.isFinite(value) ? "" : "bad", text: age(value) }, count(got), { level: failed ? "warn" : "", text: count(failed) }];
  });
  put("keys", rows.length ? table([["issuer", "wide"], ["age", "n"], ["fetched", "n"], ["failed", "n"]], rows) : el("p", { class: "empty" }, "No issuer: everyone is let in."));
}

const TRIGGERS = { signal: "SIGHUP", request: "POST /reload", file: "a file changed" };
function configuration({ families, wall }, ready) {
  const since = sum(families, "nsgate_config_last_reload_success_timestamp_seconds");
  const times = (result) => count(sum(families, "nsgate_config_reloads_total", { result }));
  const fact = (name, text, level) => el("div", null, el("dt", null, name), el("dd", { class: level ? `text-${level}` : "" }, text));
  const failed = times("failure"), facts = [
    fact("in use for", since ? age(wall / 1e3 - since) : NOTHING),
    fact("since", since ? moment(since * 1e3) : NOTHING),
    fact("reloads", times("success")),
    fact("refused reloads", failed, failed === "0" ? "" : "warn"),
  ];
  const last = ready.last_reload;
  if (last) facts.push(fact("last requested", `${moment(last.at)}, ${TRIGGERS[last.trigger] || last.trigger}`));
  for (const problem of (last && last.problems) || []) facts.push(fact("refused", problem, "bad"));
  for (const key of (last && last.restart_needed) || []) facts.push(fact("waits for a restart", key, "warn"));
  put("configuration", el("dl", { class: "facts" }, ...facts));
}

function state(level, text) {
  $("state").className = level;
  $("state").lastElementChild.textContent = text;
}

function draw(now, ready, backends, open, fleet) {
  const seen = window_();
  put("version", values(now.families, "nsgate_build_info", "version").join(", "));
  const down = backends.filter(({ up }) => !up).map(({ name }) => name);
  if (!ready.ready) state("bad", `not ready: ${ready.missing.join("; ")}`);
  else if (fleet.shared && !fleet.gateways.some((one) => one.is_owner)) state("bad", "no gateway has the batch log");
  else if (fleet.gateways.some((one) => one.routes_differ)) state("bad", "gateways with different mounts or catalogs share the batch log");
  else if (down.length) state("warn", `ready, but ${down.join(", ")} ${down.length > 1 ? "are" : "is"} down`);
  else state("good", "ready");
  tiles(now, seen, open);
  catalogs(now, seen, backends);
  operations(now, seen);
  batches(open);
  gateways(fleet);
  keys(now);
  configuration(now, ready);
  document.title = `nsgate: ${$("state").lastElementChild.textContent}`;
}

// ---- asking

async function page(path) {
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  return fetch(path, { headers, cache: "no-store", credentials: "omit", redirect: "error", signal: AbortSignal.timeout(PATIENCE) });
}

async function json(path, also = []) {
  const answer = await page(path);
  if (answer.status === 401) throw new Refused();
  if (!answer.ok && !also.includes(answer.status)) throw new Error(`${path} answered ${answer.status}`);
  return answer.json();
}

class Refused extends Error {}

async function ask() {
  const [text, ready, { backends }, listed, fleet] = await Promise.all([
    page("/metrics").then((answer) => answer.text()), json("/ready", [503]), json("/backends"), json("/batches", [503]), json("/gateways"),
  ]);
  const open = listed.batches ? listed : { batches: [], more: 0, unknown: listed.error || "no answer" };
  const families = parse(text), now = { at: performance.now(), wall: Date.now(), families, requests: sum(families, REQUESTS) };
  if (samples.length && now.requests < samples[samples.length - 1].requests) samples = [];   // it was restarted
  samples = samples.filter(({ at }) => at >= now.at - KEPT);
  // What is older than the window is only drawn as a line.
  for (const sample of samples) if (sample.at < now.at - WINDOW - 2 * EVERY) sample.families = null;
  now.figures = figures(now, samples[samples.length - 1]);
  samples.push(now);
  answered = now;
  draw(now, ready, backends, open, fleet);
}

function silent(error) {
  const since = answered ? ` The data below is from ${moment(answered.wall)}.` : "";
  $("silent").textContent = `The gateway does not answer (${error.message}). Retrying every ${EVERY / 1e3} s.${since}`;
  $("silent").hidden = false;
  $("main").className = "old";
  state("bad", "no answer");
  document.title = "nsgate: no answer";
}

async function turn() {
  if (asking) return;
  asking = true;
  clearTimeout(timer);
  try {
    await ask();
    $("silent").hidden = $("ask").hidden = true;
    $("main").hidden = false;
    $("main").className = "";
  } catch (error) {
    if (error instanceof Refused) return refused();
    silent(error);
  } finally {
    asking = false;
  }
  if (!document.hidden) timer = setTimeout(turn, samples.length === 1 ? 1000 : EVERY);
}

function refused() {
  $("wrong").hidden = token === null;
  token = null;
  sessionStorage.removeItem("admin-token");
  $("main").hidden = $("silent").hidden = true;
  $("ask").hidden = false;
  state("", "locked");
  $("token").focus();
}

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  $("token").value = "";
  sessionStorage.setItem("admin-token", token);
  turn();
});
document.addEventListener("visibilitychange", () => document.hidden ? clearTimeout(timer) : turn());
setInterval(() => { if (answered) $("updated").textContent = `updated ${age((performance.now() - answered.at) / 1e3)} ago`; }, 1000);
turn();
