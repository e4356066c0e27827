"""Computes the data that a worker's status page shows, of bounded size.

The data comes from the answers of the stages. Counts are totals since the worker started, and the
page computes rates from them. `agents.watch.page.sources` chooses the sources that are named.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from itertools import chain
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from agents.watch.deaths import join_counts
from agents.watch.page.sources import IN_ORDER, choose_sources
from agents.watch.sentences import describe_scattered, what_helps, why_held, why_late
from topology.base.late import CAUSES
from topology.base.result import EMIT
from topology.config.stages import operators_named

MAX_BLOCKERS: Final = 200
MAX_PARTITIONS: Final = 500
MAX_QUERIES: Final = 200
MAX_NEWEST: Final = 20
"""Maximum number of late events, and maximum number of log lines, in the view."""
COUNTED: Final = {
    "inorder_records_in": "in",
    "inorder_records_emitted": "emitted",
    "inorder_records_late": "late",
    "inorder_records_duplicate": "duplicate",
    "inorder_records_dead": "dead",
    "inorder_records_held": "held",
    "inorder_input_lag_records": "lag",
    "inorder_reorder_missing": "missing",
    "inorder_partitions_assigned": "partitions",
    "inorder_input_partitions": "partitions_in_all",
    "inorder_held_limit_bytes": "held_limit",
    "inorder_rebalances": "rebalances",
    "inorder_checkpoint_aborts": "aborts",
}
"""The key in the view for each metric family."""

OF_TASK: Final = ("held", "checkpoint_age_s", "checkpoint_bytes", "restore_s")
OF_MERGE: Final = ("idle", "catching_up", "blocked", "queued", "watermark_ns", "complete_ns")

RESULTS: Final = "inorder_results"

View = dict[str, Any]
Table = dict[str, dict[str, float]]
Explained = Sequence[Mapping[str, Any]]


def build_view(
    health: Mapping[str, Any],
    partitions: Explained,
    metrics: Iterable[str],
    log: Mapping[str, Sequence[View]] = MappingProxyType({}),
) -> View:
    """Return the data that the status page shows.

    `health` has the answers of `/live` and `/ready`, and `partitions` the answers of `/explain`.
    `metrics` has one text of `/metrics` for each stage, and `log` the last lines of each process.
    """
    counts, results, reasons = _count(metrics)
    busy = [part for part in partitions if part["now"] or part["high_watermark"]]
    return {
        "health": health,
        "stages": _describe_stages(partitions, counts, reasons["late"]),
        "partitions": _list_owned(partitions),
        "late": _late(partitions),
        "log": _pick_newest({"of": name, **line} for name in log for line in log[name]),
        "streams": [found for part in busy for found in _describe_streams(part)][:MAX_PARTITIONS],
        "sources": _describe_sources(busy),
        "queries": _describe_queries(busy, results),
        "reasons": {
            "late": {name: max(counts.values()) for name, counts in reasons["late"].items()},
            "dead": {name: sum(counts.values()) for name, counts in reasons["dead"].items()},
        },
        **_describe_deaths(partitions, reasons["late"]),
    }


def _describe_deaths(partitions: Explained, late: Iterable[str]) -> View:
    """Return `alarms`, `remedies` and `examples`.

    An alarm names a stage with mostly dead letters, or sources that use several partitions. The
    other two are dicts by reason: the cause and the remedy in words, and where the first dead
    letter is.
    """
    alarms: list[str] = []
    examples: dict[str, str] = {}
    remedies = {why: "; ".join([why_late(why), *what_helps(why)]) for why in CAUSES if why in late}
    for stage in dict.fromkeys(part["stage"] for part in partitions):
        deaths = join_counts(part["deaths"] for part in partitions if part["stage"] == stage)
        if (alarm := deaths.find_alarm()) is not None:
            alarms.append(f"{stage}: {alarm}")
        for reason, first in deaths.reasons():
            remedies[reason] = first.detail
            examples[reason] = f"{first.log} offset {first.offset}"
    alarms += [
        line
        for part in partitions
        for stream, operators in part["streams"].items()
        for line in describe_scattered(stream, operators.get("merge", {}).get("wandering", ()))
    ]
    return {"alarms": alarms, "remedies": remedies, "examples": examples}


def _count(metrics: Iterable[str]) -> tuple[Table, Table, dict[str, Table]]:
    """Return three tables: counts by stage, results by query and operation, and reasons.

    `early` counts the results of a query that were emitted before they were final. Late events and
    dead letters are counted by reason and stage. Each later stage counts a late event again, so the
    page shows the greatest count of any stage. Only one stage counts a dead letter.
    """
    counts, results = _table(), _table()
    reasons = {"late": _table(), "dead": _table()}
    for family in chain.from_iterable(map(text_string_to_metric_families, metrics)):
        for sample in family.samples:
            labels, value = sample.labels, sample.value
            if family.name == RESULTS:
                results[labels["query"]][labels["op"]] += value
                if (labels["op"], labels["final"]) == (EMIT, "false"):
                    results[labels["query"]]["early"] += value
            elif name := COUNTED.get(family.name):
                counts[labels["stage"]][name] += value
                if name in reasons:
                    reasons[name][labels["reason"]][labels["stage"]] += value
    return counts, results, reasons


def _table() -> Table:
    return defaultdict(lambda: defaultdict(float))


def _describe_stages(
    partitions: Explained,
    counts: Mapping[str, Any],
    late: Mapping[str, Mapping[str, float]],
) -> list[View]:
    """Return the stages in the order of the flow.

    A late event counts in the stage that decided that it is late, but in no later stage.
    """
    names = dict.fromkeys([part["stage"] for part in partitions] + list(counts))
    topics = {part["stage"]: part["topic"] for part in partitions}
    lags_ns: dict[str, int] = {}
    for part in partitions:
        lags_ns[part["stage"]] = max(lags_ns.get(part["stage"], 0), part.get("lag_ns") or 0)
    return [
        {
            "stage": name,
            "topic": topics.get(name, ""),
            "lag_ns": lags_ns.get(name, 0),
            **counts.get(name, {}),
            "late": sum(
                by_stage.get(name, 0)
                for reason, by_stage in late.items()
                if _is_decided_in(name, reason)
            ),
        }
        for name in names
    ]


def _is_decided_in(stage: str, reason: str) -> bool:
    """Return whether an operator of the stage decides that an event is late for this reason.

    The third part of `topology.order.merge...` is the operator.
    """
    cause = CAUSES.get(reason)
    return cause is None or cause.decided_in.split(".")[2] in operators_named(stage)


def _list_owned(partitions: Explained) -> list[View]:
    """Return the figures of each input partition, sorted by descending lag.

    Only the first of a task's partitions has the figures of the whole task.
    """
    lanes = [(part, lane) for part in partitions for lane in part.get("lanes") or [part]]
    lanes.sort(key=lambda each: -(each[1].get("lag_ns") or 0))
    found: list[View] = []
    told: set[tuple[str, str, int]] = set()
    for part, lane in lanes[:MAX_PARTITIONS]:
        task = part["stage"], part["topic"], part["partition"]
        of_task = {} if task in told else part
        told.add(task)
        found.append(
            {
                "stage": part["stage"],
                "name": f"{lane['topic']}/{lane['partition']}",
                "lag": lane["high_watermark"] - (lane["next_offset"] or 0),
                "lag_ns": lane.get("lag_ns"),
                **{name: of_task.get(name) for name in OF_TASK},
            }
        )
    return found


def _late(partitions: Explained) -> list[View]:
    """Return the last late events, each from the stage that decided that it is late."""
    found = (
        {"stage": part["stage"], **each}
        for part in partitions
        for each in part["late"]
        if _is_decided_in(part["stage"], each["reason"])
    )
    return _pick_newest(found)


def _pick_newest(entries: Iterable[View]) -> list[View]:
    return nlargest(MAX_NEWEST, entries, key=itemgetter("at_ns"))


def _describe_streams(part: Mapping[str, Any]) -> Iterable[View]:
    """Yield, for each merge of the partition, its watermark and the sources for which it waits."""
    for stream, operators in part["streams"].items():
        merge = operators.get("merge")
        if not merge or not merge["sources"]:
            continue
        yield {
            "stream": stream,
            "stage": part["stage"],
            "partition": part["partition"],
            "now": part["now"],
            "sources": merge["sources"],
            **{name: merge.get(name) for name in OF_MERGE},
            "waits_for": merge["waits_for"][:MAX_BLOCKERS],
        }


def _describe_sources(partitions: Explained) -> View:
    """Return the worst sources, and totals over all sources."""
    waiting: list[View] = []
    clocks: list[View] = []
    unhealthy: list[View] = []
    totals: Counter[str] = Counter()
    known = 0
    for part in partitions:
        holding: dict[str, set[str]] = {}
        for stream, operators in part["streams"].items():
            place = {"stream": stream, "now": part["now"]}
            reorder, clock = operators.get("reorder"), operators.get("clock")
            if reorder:
                known += reorder["sources"]
                waiting += [{**place, **each, "why": why_held(each)} for each in reorder["waiting"]]
                holding[stream] = {each["source"] for each in reorder["waiting"]}
            if clock:
                clocks += [_make_entry({**place, **each}, holding) for each in clock["clocks"]]
                for state in ("synced", "stale", "unsynced", "suspect", "broken"):
                    totals[state] += clock[state]
        unhealthy += [_make_entry(each, holding) for each in part["unhealthy"]]
    return {
        "known": known,
        "waiting_in_all": len(waiting),
        **choose_sources(waiting, clocks, unhealthy),
        "states": totals,
    }


def _make_entry(each: Mapping[str, Any], holding: Mapping[str, set[str]]) -> View:
    """Return the entry; add `in_order` if its partition buffers no event of the source."""
    here = holding.get(each["stream"])
    is_in_order = here is not None and each["source"] not in here
    return {**each, IN_ORDER: True} if is_in_order else dict(each)


QUALITY: Final = ("target_ppm", "achieved_ppm", "wait_mean_ns")


def _describe_queries(
    partitions: Explained, results: Mapping[str, Mapping[str, float]]
) -> list[View]:
    """Return the results of each query, and its quality in the partition where it is worst."""
    quality: dict[str, View] = {}
    for part in partitions:
        for operators in part["streams"].values():
            for kind in ("window", "pattern", "join"):
                for query, figures in (operators.get(kind) or {}).items():
                    if not isinstance(figures, Mapping) or "achieved_ppm" not in figures:
                        continue
                    found = {"kind": kind, **{name: figures.get(name) for name in QUALITY}}
                    before = quality.get(query)
                    if before is None or found["achieved_ppm"] < before["achieved_ppm"]:
                        quality[query] = found
    lacking = {query: words for part in partitions for query, words in part["unmet"].items()}
    names = sorted({*quality, *results, *lacking})[:MAX_QUERIES]
    return [
        {
            "query": name,
            **quality.get(name, {}),
            "results": results.get(name, {}),
            "lacks": lacking.get(name, []),
        }
        for name in names
    ]
