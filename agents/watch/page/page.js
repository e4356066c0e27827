// Draws each view that comes from /events. Totals become rates here, by the view before.
"use strict";

const KEEP_MS = 5 * 60 * 1000;
const NS_PER_MS = 1e6;
const byId = (id) => document.getElementById(id);
const trends = new Map(); // of a stream's merge: [[time, lag]]
let before = null; // the last view, and when it came
let latest = null;

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const share = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 2 });

function size(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  while (bytes >= 1000 && units.length > 1) {
    bytes /= 1000;
    units.shift();
  }
  return `${short.format(bytes)} ${units[0]}`;
}

function duration(ns) {
  if (ns === null || ns === undefined) return "–";
  if (!ns) return "0 ms";
  const ms = Math.abs(ns) / NS_PER_MS, sign = ns < 0 ? "−" : "";
  if (ms < 0.001) return `${sign}${whole.format(ms * 1e6)} ns`;
  if (ms < 1) return `${sign}${whole.format(ms * 1000)} µs`;
  if (ms < 1000) return `${sign}${ms < 10 ? ms.toFixed(1) : whole.format(ms)} ms`;
  if (ms < 120000) return `${sign}${(ms / 1000).toFixed(1)} s`;
  if (ms < 7200000) return `${sign}${(ms / 60000).toFixed(1)} min`;
  return `${sign}${(ms / 3600000).toFixed(1)} h`;
}

// Whoever writes an input topic chooses the names. Characters that are invisible, or that change the
// direction of the text, are escaped, as in cli/printable.py.
const UNSEEN = /[\p{C}\p{Zl}\p{Zp}]/gu;
const escaped = (each) => {
  const code = each.codePointAt(0), digits = code.toString(16);
  if (each === "\n") return "\\n";
  return code < 0x100 ? `\\x${digits.padStart(2, "0")}` : code < 0x10000 ? `\\u${digits.padStart(4, "0")}` : `\\U${digits.padStart(8, "0")}`;
};
const printable = (text) => String(text).replace(UNSEEN, escaped);

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = printable(text);
  if (kind) made.className = kind;
  return made;
}

// A cell is a text, [text, class], or an element.
function row(cells) {
  const made = element("tr");
  for (const cell of cells) {
    const [content, kind] = Array.isArray(cell) ? cell : [cell, ""];
    const td = element("td", content instanceof Node ? undefined : content, kind);
    if (content instanceof Node) td.append(content);
    made.append(td);
  }
  return made;
}

function fill(id, rows, nothing) {
  const body = byId(id).tBodies[0], head = byId(id).tHead;
  head.hidden = !rows.length;
  if (rows.length) {
    const heads = head.rows[0].cells;
    for (const each of rows) [...each.cells].forEach((cell, at) => { cell.dataset.label = heads[at].textContent; });
    hideEmpty(heads, rows);
  } else {
    const cell = element("td", nothing, "empty");
    cell.colSpan = head.rows[0].cells.length;
    const only = element("tr");
    only.append(cell);
    rows = [only];
  }
  body.replaceChildren(...rows);
}

// A column without a value in any row is hidden. The column by which rows are ranked stays.
function hideEmpty(heads, rows) {
  const says = (cell) => cell.firstElementChild || !["", "–"].includes(cell.textContent);
  [...heads].forEach((head, at) => {
    head.hidden = head.ariaSort !== "descending" && !rows.some((each) => says(each.cells[at]));
    for (const each of rows) each.cells[at].hidden = head.hidden;
  });
}

function rate(now, then, seconds) {
  return then === undefined || seconds <= 0 ? null : Math.max(0, (now ?? 0) - (then ?? 0)) / seconds;
}

const perSecond = (value) => (value === null ? "–" : `${short.format(value)}/s`);

function drawHealth(health) {
  const ready = health.ready.ok, live = health.live.ok;
  const reasons = [...health.live.reasons, ...health.ready.reasons];
  const at = byId("health");
  const notes = (health.ready.notes ?? []).map((note) => `; ${note}`).join("");
  at.textContent = live && ready ? printable(`ready${notes}`) : printable(`not ready: ${[...new Set(reasons)].join("; ")}`);
  at.className = live && ready ? "good" : live ? "wait" : "bad";
}

function drawStages(stages, old, seconds) {
  byId("flow").replaceChildren(...stages.map((stage) => {
    const then = old?.find((each) => each.stage === stage.stage);
    const box = element("div", undefined, "stage");
    box.append(element("h3", stage.stage), element("div", stage.topic, "from"));
    const list = element("dl");
    const say = (name, text, kind) => list.append(element("dt", name), element("dd", text, kind));
    const sayIf = (count, name, kind) => count && say(name, whole.format(count), kind);
    say("in", perSecond(rate(stage.in, then?.in, seconds)));
    say("out", perSecond(rate(stage.emitted, then?.emitted, seconds)));
    say("lag", duration(stage.lag_ns ?? 0), stage.lag_ns > 10e9 ? "wait" : "");
    say("unread records", whole.format(stage.lag ?? 0), stage.lag > 10000 ? "wait" : "");
    say("buffered", whole.format(stage.held ?? 0));
    if (stage.held_limit) say("buffer limit", size(stage.held_limit), "");
    sayIf(stage.missing, "numbers in gaps", "");
    sayIf(stage.late, "late events", "wait");
    sayIf(stage.duplicate, "duplicates", "");
    sayIf(stage.dead, "dead letters", "bad");
    say("partitions", `${whole.format(stage.partitions ?? 0)} of ${whole.format(stage.partitions_in_all ?? 0)}`);
    sayIf(stage.rebalances, "rebalances", "");
    sayIf(stage.aborts, "aborted checkpoints", "wait");
    box.append(list);
    return box;
  }));
}

function trend(key, value, now) {
  const kept = trends.get(key) ?? [];
  kept.push([now, value]);
  while (kept[0][0] < now - KEEP_MS) kept.shift();
  trends.set(key, kept);
  const most = Math.max(1, ...kept.map((point) => point[1]));
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "trend");
  svg.setAttribute("viewBox", "0 0 300 20");
  svg.setAttribute("preserveAspectRatio", "none");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  const first = kept[0][0], span = Math.max(1, now - first);
  const points = kept.map(([at, lag]) =>
    `${(300 * (at - first) / span).toFixed(1)},${(19 - 18 * lag / most).toFixed(1)}`);
  path.setAttribute("d", `M${points.join("L")}`);
  svg.append(path);
  return svg;
}

function drawStreams(streams, now) {
  fill("streams", streams.map((each) => {
    const lag = each.watermark_ns == null ? null : each.now - each.watermark_ns;
    const blockers = each.waits_for.map((who) => (typeof who === "string" ? who : who.source ?? JSON.stringify(who)));
    const named = blockers.slice(0, 5).join(", ") + (blockers.length > 5 ? `, and ${blockers.length - 5} more` : "");
    return row([
      each.stream, [whole.format(each.sources), "n"], [whole.format(each.idle), "n"],
      [whole.format(each.catching_up), "n"], [whole.format(each.blocked), each.blocked ? "n wait" : "n"],
      [whole.format(each.queued), "n"], [duration(lag), "n"],
      [trend(`${each.stream}/${each.stage}/${each.partition}`, (lag ?? 0) / NS_PER_MS, now), "trend"],
      [named || "no source", "text"],
    ]);
  }), "This worker merges no stream.");
}

const CLOCKS = { synced: "good", unsynced: "", stale: "wait", suspect: "wait", broken: "bad" };

// One value for each source. [stream, source] names it in all three lists.
function entriesOf(sources) {
  const entries = new Map();
  const entryOf = (each) => {
    const key = JSON.stringify([each.stream, each.source]);
    if (!entries.has(key)) entries.set(key, { source: each.source, stream: each.stream });
    return entries.get(key);
  };
  for (const each of sources.waiting) entryOf(each).waits = each;
  for (const each of sources.unhealthy) Object.assign(entryOf(each), { troubles: each, late: each.late, lost: each.lost, in_order: each.in_order });
  for (const each of sources.clocks) Object.assign(entryOf(each), { clock: each, in_order: each.in_order || entryOf(each).in_order });
  return [...entries.values()];
}

// The value by which an entry is ranked. The greatest comes first.
const RANKS = {
  since: (entry) => (entry.waits ? (entry.waits.since ? entry.waits.now - entry.waits.since : 0) : -1),
  held: (entry) => entry.waits?.held ?? 0,
  late: (entry) => entry.late ?? 0,
  lost: (entry) => entry.lost ?? 0,
  error: (entry) => entry.clock?.error_ns ?? -1,
};
let ranked = "since";
const FEW = 20; // rows of a table, unless all are asked for
let all = false;

// A click on the row asks about the first event that is buffered there.
function sourceRow(entry) {
  const { waits, clock, troubles } = entry;
  const missing = waits?.missing;
  const state = waits ? [`buffered ${waits.why}`, "text wait"]
    : entry.in_order ? ["in order", "good"] : "";
  const count = (value, kind) => [value ? whole.format(value) : "", value ? `n ${kind}` : "n"];
  // The count is a lower bound. The upper bound is in the title.
  const least = (value, error, kind) => {
    if (!value || !error) return count(value, kind);
    const made = element("span", `≥ ${whole.format(value)}`);
    made.title = `at least ${whole.format(value)}, at most ${whole.format(value + error)}`;
    return [made, `n ${kind}`];
  };
  const leastGaps = (value, error) => (value && error ? [`≥ ${whole.format(value)}`, "n"] : count(value, ""));
  const made = row([
    entry.source, entry.stream, state, count(waits?.held, ""),
    [waits?.since ? duration(waits.now - waits.since) : "", "n"],
    [waits?.deadline ? duration(waits.deadline - waits.now) : "", "n"],
    least(troubles?.late, troubles?.late_error, "wait"), leastGaps(troubles?.gaps, troubles?.lost_error),
    least(troubles?.lost, troubles?.lost_error, "wait"),
    ...(clock ? [[clock.state, CLOCKS[clock.state]], [duration(clock.offset_ns), "n"], [duration(clock.error_ns), "n"]] : ["", "", ""]),
  ]);
  made.dataset.source = entry.source;
  made.dataset.stream = entry.stream;
  if (missing) made.dataset.seq = String(missing[1] + 1);
  return made;
}

function drawSources(sources) {
  const wanted = byId("filter").value.trim().toLowerCase();
  const entries = entriesOf(sources);
  const found = entries.filter((entry) => !wanted || entry.source.toLowerCase().includes(wanted));
  const rank = RANKS[ranked];
  found.sort((one, other) => rank(other) - rank(one));
  const shown = all || wanted ? found : found.slice(0, FEW);
  byId("more").hidden = shown.length === found.length;
  byId("more").textContent = `Show all ${whole.format(found.length)}`;
  fill("sources", shown.map(sourceRow), wanted ? "The page has no source of that name." : "No source needs attention.");
  byId("sources-count").textContent = `${whole.format(sources.known)} known, ${whole.format(sources.waiting_in_all)} with buffered events`;
  byId("clock-states").textContent = Object.entries(sources.states)
    .filter(([, count]) => count).map(([state, count]) => `${whole.format(count)} ${state}`).join(" · ");
  const left = sources.known - entries.length;
  byId("sources-note").textContent = left > 0
    ? `The table names the worst sources. The other ${whole.format(left)} have fewer late events and gaps, shorter waits and smaller time errors.` : "";
}

byId("sources").tHead.addEventListener("click", (clicked) => {
  const by = clicked.target.closest("button")?.dataset.by;
  if (!by) return;
  ranked = by;
  for (const button of byId("sources").tHead.querySelectorAll("button")) {
    button.parentElement.ariaSort = button.dataset.by === by ? "descending" : "none";
  }
  if (latest) drawSources(latest.sources);
});

byId("more").addEventListener("click", () => {
  all = true;
  drawSources(latest.sources);
});

function drawQueries(queries, old, seconds) {
  fill("queries", queries.map((each) => {
    const results = each.results.emit ?? 0;
    const then = old?.find((other) => other.query === each.query);
    const short_of = each.achieved_ppm < each.target_ppm;
    const part = (ppm) => (ppm == null ? "–" : share.format(ppm / 1e6));
    return row([
      each.query, each.kind ?? "", [perSecond(rate(results, then?.results.emit, seconds)), "n"],
      [whole.format(results), "n"], [whole.format(each.results.early ?? 0), "n"], [whole.format(each.results.update ?? 0), "n"],
      [whole.format(each.results.retract ?? 0), "n"], [part(each.achieved_ppm), short_of ? "n bad" : "n"],
      [part(each.target_ppm), "n"], [duration(each.wait_mean_ns), "n"],
      [each.lacks.join("; "), "text wait"],
    ]);
  }), "This worker has no results.");
}

// Each reason with its count, the most frequent first.
function drawReasons(id, counts, kind, more) {
  const found = Object.entries(counts).filter(([, count]) => count).sort((a, b) => b[1] - a[1]);
  byId(`${id}-section`).hidden = !found.length;
  fill(id, found.map(([reason, count]) => row([[reason, kind], [whole.format(count), "n"], ...more(reason)])), "none");
}

const clockTime = (ns) => new Date(ns / NS_PER_MS).toISOString().slice(0, 19).replace("T", " ") + " UTC";

function drawLate(late) {
  byId("late-section").hidden = !late.length;
  fill("late", late.slice(0, FEW).map((each) => {
    const made = row([each.source, [String(each.epoch), "n"], [String(each.first), "n"], each.stream ?? "", [each.reason, "wait"],
      [each.by_ns ? duration(each.by_ns) : "", "n"], [clockTime(each.at_ns), "time"]]);
    Object.assign(made.dataset, { source: each.source, stream: each.stream ?? "", epoch: each.epoch, seq: each.first });
    return made;
  }), "none");
}

function drawPartitions(partitions) {
  const shown = partitions.slice(0, FEW), left = partitions.length - shown.length;
  const seconds = (value) => [value == null ? "–" : duration(value * 1e9), "n"];
  fill("partitions", shown.map((each) => row([
    each.stage, each.name, [duration(each.lag_ns), each.lag_ns > 10e9 ? "n wait" : "n"], [whole.format(each.lag), "n"],
    [each.held == null ? "–" : whole.format(each.held), "n"], seconds(each.checkpoint_age_s),
    [each.checkpoint_bytes == null ? "–" : size(each.checkpoint_bytes), "n"], seconds(each.restore_s),
  ])), "This worker has no partition.");
  byId("partitions-count").textContent = left > 0 ? `and ${whole.format(left)} more with a smaller lag` : "";
}

function drawLog(lines) {
  byId("log-section").hidden = !lines.length;
  fill("log", lines.slice(0, FEW).map((each) => row([[clockTime(each.at_ns), "time"], each.of, [each.text, each.level === "warning" ? "text wait" : "text bad"]])), "none");
}

byId("settings").addEventListener("toggle", async (toggled) => {
  const at = toggled.target.querySelector("pre");
  if (!toggled.target.open || at.textContent) return;
  const response = await fetch("/settings");
  at.textContent = await response.text();
});

function drawAlarms(alarms) {
  byId("alarms").hidden = !alarms.length;
  byId("alarms").replaceChildren(...alarms.map((alarm) => element("li", alarm)));
}

function draw(view) {
  const now = performance.now();
  const seconds = before ? (now - before.at) / 1000 : 0;
  latest = view;
  drawHealth(view.health);
  drawStages(view.stages, before?.view.stages, seconds);
  drawStreams(view.streams, now);
  drawSources(view.sources);
  drawQueries(view.queries, before?.view.queries, seconds);
  const remedy = (reason) => [view.remedies[reason] ?? "", "text"];
  drawReasons("dead", view.reasons.dead, "bad", (reason) => [view.examples[reason] ?? "", remedy(reason)]);
  drawReasons("causes", view.reasons.late, "wait", (reason) => [remedy(reason)]);
  drawLate(view.late);
  drawPartitions(view.partitions);
  drawLog(view.log);
  drawAlarms(view.alarms);
  before = { view, at: now };
  document.body.dataset.drawn = String(Number(document.body.dataset.drawn ?? 0) + 1);
  document.body.dataset.drawnMs = (performance.now() - now).toFixed(1);
}

byId("filter").addEventListener("input", () => latest && drawSources(latest.sources));

// The words of the page for the answers of /event.
const WHERE = {
  held: ["buffered", "wait"], between: ["between stages", "wait"], awaited: ["awaited", "wait"], let_go: ["emitted by reorder", "good"],
  late: ["late", "bad"], dead: ["dead letter", "bad"], lost: ["in a gap", "bad"], emitted: ["emitted", "good"],
  not_come: ["not come", ""], not_known: ["not known", ""],
};

async function explain(form) {
  const asked = new URLSearchParams([...new FormData(form)].filter(([, word]) => word.trim()));
  const at = byId("event-answer");
  at.replaceChildren(element("p", "loading …"));
  try {
    const response = await fetch(`/event?${asked}`);
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.error);
    const lines = answer.said.map((line) => element("li", line.trim(), line.startsWith(" ") ? "more" : ""));
    const list = element("ul");
    list.append(...lines);
    at.replaceChildren(element("p", ...(WHERE[answer.where] ?? [answer.where])), list);
  } catch (error) {
    at.replaceChildren(element("p", error.message, "bad"));
  }
}

byId("event").addEventListener("submit", (submitted) => {
  submitted.preventDefault();
  explain(submitted.target);
});

// A click on a source asks about its first buffered event, and a click on a late event about that event.
function ask(clicked) {
  const made = clicked.target.closest("tr");
  if (!made?.dataset.source) return;
  const form = byId("event").elements;
  form.source.value = made.dataset.source;
  form.stream.value = made.dataset.stream;
  form.epoch.value = made.dataset.epoch ?? "";
  form.seq.value = made.dataset.seq ?? "";
  byId("event-title").scrollIntoView({ block: "nearest" });
  if (form.seq.value) explain(byId("event"));
}
for (const id of ["sources", "late"]) byId(id).addEventListener("click", ask);

const stream = new EventSource("/events");
stream.onmessage = (message) => draw(JSON.parse(message.data));
stream.onerror = () => {
  byId("health").textContent = "The worker does not answer. The page tries again.";
  byId("health").className = "bad";
};
