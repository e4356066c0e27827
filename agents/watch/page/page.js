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

function duration(ns) {
  if (ns === null || ns === undefined) return "–";
  const ms = Math.abs(ns) / NS_PER_MS, sign = ns < 0 ? "−" : "";
  if (ms < 0.001) return `${sign}${whole.format(ms * 1e6)} ns`;
  if (ms < 1) return `${sign}${whole.format(ms * 1000)} µs`;
  if (ms < 1000) return `${sign}${ms < 10 ? ms.toFixed(1) : whole.format(ms)} ms`;
  if (ms < 120000) return `${sign}${(ms / 1000).toFixed(1)} s`;
  if (ms < 7200000) return `${sign}${(ms / 60000).toFixed(1)} min`;
  return `${sign}${(ms / 3600000).toFixed(1)} h`;
}

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
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
  const body = byId(id).tBodies[0];
  if (!rows.length) {
    const cell = element("td", nothing, "empty");
    cell.colSpan = byId(id).tHead.rows[0].cells.length;
    const only = element("tr");
    only.append(cell);
    rows = [only];
  }
  body.replaceChildren(...rows);
}

function rate(now, then, seconds) {
  return then === undefined || seconds <= 0 ? null : Math.max(0, (now ?? 0) - (then ?? 0)) / seconds;
}

const perSecond = (value) => (value === null ? "–" : `${short.format(value)}/s`);

function drawHealth(health) {
  const ready = health.ready.ok, live = health.live.ok;
  const reasons = [...health.live.reasons, ...health.ready.reasons];
  const at = byId("health");
  at.textContent = live && ready ? "ready" : `not ready: ${[...new Set(reasons)].join("; ")}`;
  at.className = live && ready ? "good" : live ? "wait" : "bad";
}

function drawWorkers(workers) {
  byId("workers-section").hidden = workers.length < 2;
  fill("workers", workers.map((each) => {
    if (each.fault) return row([each.name, ["does not answer", "bad"], each.fault]);
    const reasons = [...each.live.reasons, ...each.ready.reasons].join("; ");
    return row([each.name, each.live.ok && each.ready.ok ? ["ready", "good"] : ["not ready", "wait"], reasons]);
  }), "none");
}

// Counts of other workers than before are no rates.
const answered = (view) => view.workers.filter((each) => !each.fault).map((each) => each.name).join(" ");

function drawStages(stages, old, seconds) {
  byId("flow").replaceChildren(...stages.map((stage) => {
    const then = old?.find((each) => each.stage === stage.stage);
    const box = element("div", undefined, "stage");
    box.append(element("h3", stage.stage), element("div", stage.topic, "from"));
    const list = element("dl");
    const say = (name, text, kind) => list.append(element("dt", name), element("dd", text, kind));
    say("in", perSecond(rate(stage.in, then?.in, seconds)));
    say("out", perSecond(rate(stage.emitted, then?.emitted, seconds)));
    say("not yet read", whole.format(stage.lag ?? 0), stage.lag > 10000 ? "wait" : "");
    say("held", whole.format(stage.held ?? 0));
    say("numbers missing", whole.format(stage.missing ?? 0));
    say("late", whole.format(stage.late ?? 0), stage.late ? "wait" : "");
    say("doubled", whole.format(stage.duplicate ?? 0));
    say("dead", whole.format(stage.dead ?? 0), stage.dead ? "bad" : "");
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
  const points = kept.map(([at, lag]) =>
    `${(300 * (1 - (now - at) / KEEP_MS)).toFixed(1)},${(19 - 18 * lag / most).toFixed(1)}`);
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
      named || "nobody",
    ]);
  }), "no stream is merged here");
}

const LANES = { hole: "behind a hole", start: "held at its start", suspect: "a jump that may be a mistake" };
const CLOCKS = { synced: "good", unsynced: "", stale: "wait", suspect: "wait", broken: "bad" };

// Each lane as one value, whatever brought it here: [stream, source] names it.
function lanesOf(sources) {
  const lanes = new Map();
  const laneOf = (each) => {
    const key = JSON.stringify([each.stream, each.source]);
    if (!lanes.has(key)) lanes.set(key, { source: each.source, stream: each.stream });
    return lanes.get(key);
  };
  for (const each of sources.waiting) laneOf(each).waits = each;
  for (const each of sources.troubled) Object.assign(laneOf(each), { troubles: each, late: each.late, lost: each.lost, in_order: each.in_order });
  for (const each of sources.clocks) Object.assign(laneOf(each), { clock: each, in_order: each.in_order || laneOf(each).in_order });
  return [...lanes.values()];
}

// What a lane is ranked by, the most first; nothing ranks last.
const RANKS = {
  since: (lane) => (lane.waits ? (lane.waits.since ? lane.waits.now - lane.waits.since : 0) : -1),
  held: (lane) => lane.waits?.held ?? 0,
  late: (lane) => lane.late ?? 0,
  lost: (lane) => lane.lost ?? 0,
  error: (lane) => lane.clock?.error_ns ?? -1,
};
let ranked = "since";

// A click on the row asks about the first event that waits there.
function laneRow(lane) {
  const { waits, clock, troubles } = lane;
  const missing = waits?.missing;
  const numbers = missing ? `number ${missing[0]}` + (missing[1] > missing[0] ? ` to ${missing[1]}` : "") : "";
  const state = waits ? [LANES[waits.reason] ?? waits.reason ?? "waits", "wait"]
    : lane.in_order ? ["in order", "good"] : "";
  const count = (value, kind) => [value ? whole.format(value) : "", value ? `n ${kind}` : "n"];
  // What more there may have been is not known: at least so many.
  const least = (value, error, kind) => {
    if (!value || !error) return count(value, kind);
    const made = element("span", `≥ ${whole.format(value)}`);
    made.title = `at least; at most ${whole.format(value + error)}`;
    return [made, `n ${kind}`];
  };
  const leastGaps = (value, error) => (value && error ? [`≥ ${whole.format(value)}`, "n"] : count(value, ""));
  const made = row([
    lane.source, lane.stream, state, count(waits?.held, ""), numbers,
    [waits?.since ? duration(waits.now - waits.since) : "", "n"],
    [waits?.deadline ? duration(waits.deadline - waits.now) : "", "n"],
    least(troubles?.late, troubles?.late_error, "wait"), leastGaps(troubles?.gaps, troubles?.lost_error),
    least(troubles?.lost, troubles?.lost_error, "wait"),
    ...(clock ? [[clock.state, CLOCKS[clock.state]], [duration(clock.offset_ns), "n"], [duration(clock.error_ns), "n"]] : ["", "", ""]),
  ]);
  made.dataset.source = lane.source;
  made.dataset.stream = lane.stream;
  if (missing) made.dataset.seq = String(missing[1] + 1);
  return made;
}

function drawSources(sources) {
  const wanted = byId("filter").value.trim().toLowerCase();
  const lanes = lanesOf(sources);
  const found = lanes.filter((lane) => !wanted || lane.source.toLowerCase().includes(wanted));
  const rank = RANKS[ranked];
  found.sort((one, other) => rank(other) - rank(one));
  fill("sources", found.map(laneRow), wanted ? "no source of that name is named here" : "no source waits, none is late, none is unsure");
  byId("sources-count").textContent = `${whole.format(sources.known)} known, ${whole.format(sources.waiting_in_all)} wait`;
  byId("clock-states").textContent = Object.entries(sources.states)
    .filter(([, count]) => count).map(([state, count]) => `${whole.format(count)} ${state}`).join(" · ");
  const left = sources.known - lanes.length;
  byId("sources-note").textContent = left > 0
    ? `${whole.format(left)} more are not named here: they wait less long, are late less often and surer of their time than these, or in order` : "";
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

// A query that chooses: the way that is on, in how many partitions where they differ, what is held.
function way(query) {
  const ways = Object.entries(query.ways ?? {}).sort();
  const named = ways.map(([name, number]) => (ways.length > 1 ? `${name} in ${number}` : name));
  return named.join(", ") + (query.held ? `, ${whole.format(query.held)} held` : "");
}

function drawQueries(queries, old, seconds) {
  fill("queries", queries.map((each) => {
    const told = each.told.emit ?? 0;
    const then = old?.find((other) => other.query === each.query);
    const short_of = each.achieved_ppm < each.promised_ppm;
    const part = (ppm) => (ppm == null ? "–" : share.format(ppm / 1e6));
    return row([
      each.query, each.kind ?? "", way(each), [perSecond(rate(told, then?.told.emit, seconds)), "n"],
      [whole.format(told), "n"], [whole.format(each.told.update ?? 0), "n"],
      [whole.format(each.told.retract ?? 0), "n"], [part(each.achieved_ppm), short_of ? "n bad" : "n"],
      [part(each.promised_ppm), "n"], [duration(each.wait_mean_ns), "n"],
    ]);
  }), "no query runs here");
}

function drawReasons(reasons) {
  const rows = Object.entries(reasons).flatMap(([what, counts]) =>
    Object.entries(counts).filter(([, count]) => count).sort((a, b) => b[1] - a[1])
      .map(([reason, count]) => row([[what, what === "dead" ? "bad" : "wait"], reason, [whole.format(count), "n"]])));
  fill("reasons", rows, "none");
}

function draw(view) {
  const now = performance.now();
  const same = before && answered(before.view) === answered(view);
  const seconds = same ? (now - before.at) / 1000 : 0;
  latest = view;
  drawHealth(view.health);
  drawWorkers(view.workers);
  drawStages(view.stages, before?.view.stages, seconds);
  drawStreams(view.streams, now);
  drawSources(view.sources);
  drawQueries(view.queries, before?.view.queries, seconds);
  drawReasons(view.reasons);
  before = { view, at: now };
  document.body.dataset.drawn = String(Number(document.body.dataset.drawn ?? 0) + 1);
  document.body.dataset.drawnMs = (performance.now() - now).toFixed(1);
}

byId("filter").addEventListener("input", () => latest && drawSources(latest.sources));

const WHERE = { held: "wait", between: "wait", awaited: "wait", late: "bad", dead: "bad", lost: "bad", emitted: "good" };

async function explain(form) {
  const asked = new URLSearchParams([...new FormData(form)].filter(([, word]) => word.trim()));
  const at = byId("event-answer");
  at.replaceChildren(element("p", "asking …"));
  try {
    const response = await fetch(`/event?${asked}`);
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.error);
    const lines = answer.said.map((line) => element("li", line.trim(), line.startsWith(" ") ? "more" : ""));
    const list = element("ul");
    list.append(...lines);
    at.replaceChildren(element("p", answer.where.replace("_", " "), WHERE[answer.where] ?? ""), list);
  } catch (error) {
    at.replaceChildren(element("p", error.message, "bad"));
  }
}

byId("event").addEventListener("submit", (submitted) => {
  submitted.preventDefault();
  explain(submitted.target);
});

// A source that waits is one click away from the first event that waits in it.
byId("sources").addEventListener("click", (clicked) => {
  const made = clicked.target.closest("tr");
  if (!made?.dataset.source) return;
  const form = byId("event").elements;
  form.source.value = made.dataset.source;
  form.stream.value = made.dataset.stream;
  form.epoch.value = "";
  form.seq.value = made.dataset.seq ?? "";
  if (form.seq.value) explain(byId("event"));
});

const stream = new EventSource("/events");
stream.onmessage = (message) => draw(JSON.parse(message.data));
stream.onerror = () => {
  byId("health").textContent = "the worker does not answer; trying again";
  byId("health").className = "bad";
};
