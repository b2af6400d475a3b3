// Turns what the gateway says into the figures of the status page: rates, quantiles, and numbers in words.
"use strict";

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
const ZONED = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" };
const moment = (time) => new Date(time).toLocaleString("sv-SE", ZONED);   // 2026-11-21 14:57:46 CET
const clock = (time) => new Date(time).toLocaleTimeString("sv-SE", { hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" });
const bytes = (value) => value >= 1 << 30 ? `${(value / (1 << 30)).toFixed(2)} GiB` : `${(value / (1 << 20)).toFixed(0)} MiB`;
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

