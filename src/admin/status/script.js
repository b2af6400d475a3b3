// Draws the status page from /status and /metrics: its headline, tiles, and the tables of catalogs, batches, gateways,
// failures and callers, every few seconds. Nothing that the gateway says becomes markup: all of it
// goes through `textContent`.
const EVERY = 3000, PATIENCE = 8000, WINDOW = 60e3, LISTED = 12, FIRST = 10;
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
const word = (level, text) => el("span", { class: `word ${level}` }, el("span", { class: "dot" }), el("b", null, text));
const sub = (...parts) => el("span", { class: "sub" }, ...parts);
const empty = (text) => el("p", { class: "empty" }, text);

function table(columns, rows) {
  const head = columns.map(([name, kind]) => el("th", { class: kind === "n" ? "n" : "", scope: "col" }, name));
  const cell = (value, place) => {
    const [name, kind] = columns[place], level = (value && value.level) || "";
    const content = value instanceof Node || Array.isArray(value) ? value : String(value && value.level !== undefined ? value.text : value);
    return el("td", { class: `${kind} ${level}`, "data-name": name }, ...[content].flat());
  };
  const body = rows.map((row) => el("tr", null, ...row.map(cell)));
  return el("table", null, el("thead", null, el("tr", null, ...head)), el("tbody", null, ...body));
}

function tile(name, number, unit, below, level) {
  return el("div", { class: `tile ${level || ""}` }, el("h3", null, name),
    el("div", { class: "number" }, number, unit ? el("span", { class: "unit" }, unit) : null), below ? el("p", null, below) : null);
}

// A command to copy. One that asks a gateway gets the address of this page; `check` and `explain` read a file. A line ends
// between two words of it: an option that is broken in two is misread.
const addressed = (text) => /^nsgate (?!check |explain )/.test(text) ? `${text} --admin ${location.origin}` : text;
function command(text) {
  const words = addressed(text).split(" ").flatMap((one) => [" ", el("span", { class: "whole" }, one)]).slice(1);
  const code = el("code", null, ...words), button = el("button", { type: "button", "aria-label": `copy: ${addressed(text)}` }, "copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(code);   // without https a page may not write to the clipboard
      button.textContent = "selected";
    }
  });
  return el("div", { class: "command" }, code, button);
}

// ---- the parts of the page

const LEVEL = { critical: "bad", warning: "warn", notice: "" };
// Commands stay as they are while nothing changes, so that a button is not replaced under the finger.
let told = "";
function findings({ findings: found }) {
  $("findings-section").hidden = !found.length;
  const now = JSON.stringify(found);
  if (now === told) return;
  told = now;
  put("findings", ...found.map(({ urgency, what, detail, command: run, alert }) => el("li", { class: `finding ${LEVEL[urgency]}` },
    el("p", null, word(LEVEL[urgency], what), " ", el("small", { class: "faint" }, urgency)),
    detail ? el("p", { class: "faint" }, detail) : null,
    run ? command(run) : null,
    alert ? el("p", null, el("a", { href: `/alerts/${encodeURIComponent(alert)}` }, `${alert}: what it means, what to do`)) : null)));
}

function tiles(now, seen, status) {
  const { families } = now, { load } = status, young = seen.seconds < 10;
  // Of requests that fail after seconds, a page that was just opened has seen none: the gateway has.
  const all = young ? load.requests_per_second : seen.rate(REQUESTS), failed = young ? load.failed_per_second : seen.rate(REQUESTS, FAILED);
  const [p50, p95, p99] = seen.quantiles("nsgate_request_duration_seconds", {});
  const refused = seen.rate(REQUESTS, { code: /^(401|403)$/ }), shed = seen.rate(REQUESTS, { backend: "none", code: /^(429|503)$/ });
  const listed = status.batches.filter(({ state }) => state === "hazard" || state === "stranded").length;
  const hazards = listed + (status.more_waiting_batches || 0), open = status.batches.length + status.more_batches;
  const full = (part, limit) => part > 0.8 * limit ? "warn" : "";
  put("tiles",
    tile("Requests", count(all), "/s", `${count(sum(families, REQUESTS))} since the start`),
    tile("Server errors", share(failed, all), "", `${count(failed)} /s`, erring(failed, all)),
    tile("Latency", latency(p99), "p99", `p50 ${latency(p50)} · p95 ${latency(p95)}`),
    tile("In flight", count(load.in_flight), `of ${count(load.in_flight_limit)}`, `${count(load.connections)} of ${count(load.connections_limit)} connections`, full(load.in_flight, load.in_flight_limit) || full(load.connections, load.connections_limit)),
    tile("Turned away", count(none(refused) ? null : refused + shed), "/s", `denied ${count(refused)} · shed ${count(shed)}`, shed ? "warn" : ""),
    tile("Batches", count(open), "open", hazards ? `${count(hazards)} wait${hazards > 1 ? "" : "s"} for a person` : "no hazard", hazards ? "bad" : ""));
}

const name_of = (names) => names.length ? names.join("$") : "(everything else)";
const serves = (one) => one.up && one.breaker === "closed";

function address(one) {
  const words = !one.up ? `down: ${one.error || "no answer"}`
    : one.breaker === "closed" ? `${one.in_flight} in flight` : `no requests sent, circuit breaker ${one.breaker}${one.failure ? `: ${one.failure}` : ""}`;
  return el("span", { class: `sub ${serves(one) ? "" : "bad"}` }, `${one.address}: ${words}`);
}

function catalogs(now, seen, backends) {
  if (!backends.length) return put("catalogs", empty("No catalog is configured."));
  // If no label tells catalogs apart, `telemetry.histograms` says so, and there is no latency of one.
  const rows = backends.map((backend) => {
    const of = { backend: backend.name }, all = seen.rate(REQUESTS, of), failed = seen.rate(REQUESTS, { ...of, ...FAILED });
    const [p50, p95, p99] = seen.quantiles("nsgate_upstream_duration_seconds", of), addresses = backend.endpoints || [];
    const some = addresses.filter((one) => !serves(one)).length;
    const state = !backend.up ? word("bad", "down") : some ? word("warn", `up, ${some} of ${addresses.length} addresses do not serve`) : word("good", "up");
    const set = backend.managed_versioning_setting === "set";
    const mounts = backend.mounts.map(({ namespace, backend_namespace: theirs }) => {
      const kept = namespace.join("$") === theirs.join("$");
      return sub(el("code", null, name_of(namespace)), kept ? "" : ` → ${theirs.length ? theirs.join("$") : "its root"}`);
    });
    if (backend.more_mounts) mounts.push(sub(`and ${count(backend.more_mounts)} more mounts`));
    return [
      [el("b", null, backend.name), " ", el("span", { class: "faint" }, backend.implementation), ...mounts],
      [state, ...(backend.error && !addresses.length ? [el("span", { class: "sub bad" }, backend.error)] : []), ...addresses.map(address), sub(`managed versioning: ${backend.managed_versioning}${set ? " (set)" : ""}`)],
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
  put("operations", rows.length ? table(columns, rows) : empty(seen.seconds < 0.5 ? "Counting…" : "No requests in the last minute."));
}

const STANDING = { hazard: "bad", stranded: "bad", undecided: "warn", undoing: "warn", committed: "good", watching: "good" };
const caller = (by) => !by ? "not known" : by.issuer ? [by.subject, sub(`of ${by.issuer}`)] : by.subject || "anonymous";

let listed = "";
function batches({ batches: open, more_batches: more, batches_unknown: unknown }) {
  if (unknown) { listed = ""; return put("batches", el("p", { class: "empty text-bad" }, `Not known: ${unknown}`)); }
  if (!open.length) { listed = ""; return put("batches", empty("None: every batch is finished.")); }
  const now = JSON.stringify([open.map((batch) => ({ ...batch, age_seconds: Math.floor(batch.age_seconds / 10) })), more]);
  if (now === listed) return;
  listed = now;
  const rows = open.map((batch) => [
    [el("code", null, batch.tables.join(", ") + (batch.more_tables ? ` and ${batch.more_tables} more` : "")), sub(`in ${batch.catalogs.join(", ")}`)],
    word(STANDING[batch.state], batch.state),
    [`${age(batch.age_seconds)} ago`, sub(moment(batch.since))],
    caller(batch.begun_by),
    [`waits for ${batch.waits_for}`, command(`nsgate batches show ${batch.id}`)],
  ]);
  put("batches", table([["tables", "wide"], ["state", "s"], ["begun", "s time"], ["by", "s"], ["now", "wide"]], rows), more ? el("p", { class: "faint more" }, `and ${more} more`) : "");
}

// The lists of which all lines are shown.
const whole = new Set();
for (const id of ["failed", "refused"]) $(`${id}-more`).addEventListener("click", () => { whole.add(id); turn(); });

function failures(id, lines, none_text) {
  $(`${id}-more`).hidden = whole.has(id) || lines.length <= FIRST;
  if (!lines.length) return put(id, empty(none_text));
  const rows = lines.slice(0, whole.has(id) ? lines.length : FIRST).map((one) => [
    [clock(one.at), sub(new Date(one.at).toLocaleDateString("sv-SE"))],
    { level: one.status >= 500 ? "bad" : "warn", text: one.status || NOTHING },
    [el("code", null, one.operation), one.name ? sub(el("code", null, one.name)) : null],
    one.catalog || "no catalog",
    [one.cause, one.count > 1 ? el("b", null, ` ${one.count} times`) : null, one.subject ? sub(`caller ${one.subject}${one.issuer ? ` of ${one.issuer}` : ""}`) : null, sub("request ", el("code", null, one.id))],
  ]);
  put(id, table([["time", "s time"], ["status", "s"], ["operation", "s"], ["catalog", "s"], ["cause", "wide"]], rows));
}

function callers({ callers: all }) {
  const rows = all.map(({ subject, issuer, percent }) => [subject || "anonymous", issuer || NOTHING, `${percent.toFixed(1)} %`]);
  put("callers", rows.length ? table([["caller", "wide"], ["issuer", "wide"], ["share", "n"]], rows) : empty("Not known: there were few requests, or none with a token, or `telemetry.access_log` is off."));
}

// Gateways that share a log. One that is silent for half of its lease is marked.
function gateways({ shared, gateways }) {
  $("gateways-section").hidden = !shared;
  if (!shared) return;
  const rows = gateways.map((one) => {
    const late = one.silent_millis > one.lease_millis / 2;
    const state = late ? { level: "bad", text: `silent for ${age(one.silent_millis / 1e3)}` }
      : one.routes_differ ? { level: "bad", text: "other mounts or catalogs than here" } : { level: "good", text: "alive" };
    return [one.name + (one.is_this ? " (this one)" : ""), state, one.recovers ? "recovers batches" : one.is_owner ? "runs batches" : "passes batches on", one.address || NOTHING, one.version];
  });
  put("gateways", table([["gateway", "wide"], ["state", "s"], ["part", "s"], ["address for the others", "wide"], ["version", "s"]], rows));
}

function keys({ issuers }) {
  const rows = issuers.map((one) => [
    [one.issuer, one.error ? el("span", { class: "sub bad" }, one.error) : null],
    one.has_keys ? { level: "", text: `${age(one.age_seconds)} ago` } : { level: "bad", text: "never" },
    { level: one.failures ? "warn" : "", text: one.failures },
  ]);
  put("keys", rows.length ? table([["issuer", "wide"], ["fetched", "n"], ["failures in a row", "n"]], rows) : empty("No issuer: everyone is let in."));
}

function certificates({ certificates: all }) {
  const rows = all.map(({ of, expires, seconds_left: left }) => [el("code", null, of), moment(expires),
    { level: left < 86400 ? "bad" : left < 14 * 86400 ? "warn" : "", text: left < 0 ? "expired" : `in ${age(left)}` }]);
  put("certificates", rows.length ? table([["of", "wide"], ["expires", "s time"], ["left", "s"]], rows) : empty("None: no TLS is configured."));
}

const fact = (name, text, level) => el("div", null, el("dt", null, name), el("dd", { class: level ? `text-${level}` : "" }, text));

function process({ families }, { process: of, version, curves: { cpu } }) {
  const [{ labels: build } = { labels: {} }] = families.get("nsgate_build_info") || [];
  put("process", el("dl", { class: "facts" },
    fact("running for", age(of.uptime_seconds)), fact("since", moment(of.since)),
    fact("memory", bytes(of.resident_bytes)),
    fact("processor", cpu.length ? `${cpu[cpu.length - 1].toFixed(2)} cores` : NOTHING), fact("processor time", age(of.cpu_seconds)),
    fact("open files", `${count(of.open_files)} of ${count(of.max_files)}`, of.open_files > 0.8 * of.max_files ? "warn" : ""),
    fact("threads", of.threads), ...Object.entries({ version, ...build }).filter(([, value]) => value).map(([name, value]) => fact(name, value))));
}

const TRIGGERS = { signal: "SIGHUP", request: "POST /reload", file: "a file changed" };
function configuration({ families }, { at, configuration: { file, since, last_reload: last } }) {
  const times = (result) => count(sum(families, "nsgate_config_reloads_total", { result })), failed = times("failure");
  const facts = [
    fact("file", file), fact("in use for", age((new Date(at) - new Date(since)) / 1e3)), fact("since", moment(since)),
    fact("reloads", times("success")), fact("refused reloads", failed, failed === "0" ? "" : "warn"),
  ];
  if (last) facts.push(fact("last requested", `${moment(last.at)}, ${TRIGGERS[last.trigger] || last.trigger}`));
  for (const problem of (last && last.problems) || []) facts.push(fact("refused", problem, "bad"));
  for (const changed of (last && last.restart_needed) || []) facts.push(fact("waits for a restart", changed.key, "warn"));
  put("configuration", el("dl", { class: "facts" }, ...facts));
}

$("config").addEventListener("toggle", async () => {
  if (!$("config").open) return;
  try {
    $("config-text").textContent = JSON.stringify(await json("/config"), null, 2);
  } catch (error) {
    $("config-text").textContent = `not known: ${error.message}`;
  }
});

// A name may hold characters that are not seen and turn the text around.
const visible = (text) => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (hidden) => `\\u{${hidden.codePointAt(0).toString(16)}}`);

function state(level, said) {
  const text = visible(said);
  $("state").className = level;
  $("state").lastElementChild.textContent = text;
  document.title = `nsgate: ${text}`;
}

function draw(now, status) {
  const seen = window_();
  put("version", status.version);
  state(status.urgency ? LEVEL[status.urgency] || "warn" : "good", status.headline);
  findings(status);
  tiles(now, seen, status);
  batches(status);
  catalogs(now, seen, status.catalogs);
  curves(status);
  failures("failed", status.failed, "None since the start.");
  failures("refused", status.refused, "None since the start.");
  operations(now, seen);
  callers(status);
  gateways(status.gateways);
  keys(status);
  certificates(status);
  process(now, status);
  configuration(now, status);
}

// ---- asking

async function page(path) {
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  return fetch(path, { headers, cache: "no-store", credentials: "omit", redirect: "error", signal: AbortSignal.timeout(PATIENCE) });
}

async function json(path) {
  const answer = await page(path);
  if (answer.status === 401) throw new Refused();
  if (!answer.ok) throw new Error(`${path} answered ${answer.status}`);
  return answer.json();
}

class Refused extends Error {}

async function ask() {
  const [text, status] = await Promise.all([page("/metrics").then((answer) => answer.text()), json("/status")]);
  const families = parse(text), now = { at: performance.now(), wall: Date.now(), families, requests: sum(families, REQUESTS) };
  if (samples.length && now.requests < samples[samples.length - 1].requests) samples = [];   // it was restarted
  samples = samples.filter(({ at }) => at >= now.at - WINDOW - 2 * EVERY);
  samples.push(now);
  answered = now;
  draw(now, status);
}

function silent(error) {
  const since = answered ? ` The data below is from ${moment(answered.wall)}.` : "";
  $("silent").textContent = `The gateway does not answer (${error.message}). Retrying every ${EVERY / 1e3} s.${since}`;
  $("silent").hidden = false;
  $("main").className = "old";
  state("bad", "no answer");
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
setInterval(() => { if (answered) $("updated").textContent = `updated ${age((performance.now() - answered.at) / 1e3)} ago, at ${clock(answered.wall)}`; }, 1000);
$("terminal").textContent = addressed("nsgate status");
turn();
