"""What the page shows, as one value, bounded for any number of sources.

It is worked out from what stages answer. Counts are totals since the workers started; whoever looks
works out rates. Which sources are shown is chosen in `agents.watch.page.sources`; how many there
are is shown too.
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

from agents.watch.deaths import joined
from agents.watch.page.sources import IN_ORDER, named_sources
from agents.watch.sentences import scattered, what_helps, why_held, why_late
from topology.model.late import CAUSES

MAX_BLOCKERS: Final = 200
MAX_PARTITIONS: Final = 500
MAX_QUERIES: Final = 200
MAX_LATE: Final = 20
MAX_LINES: Final = 20
"""Late events, and lines of the log, the newest first."""
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
"""Families of metrics, and what the page calls them."""

OF_PARTITION: Final = ("lag_ns", "held", "checkpoint_age_s", "checkpoint_bytes", "restore_s")

REASONS: Final = {"inorder_records_late": "late", "inorder_records_dead": "dead"}
"""Counted by reason too, and by stage. What is late stays so in every stage behind, which counts it
again: it is shown as often as in the stage that counts most. What is dead goes no further."""

RESULTS: Final = "inorder_results"

View = dict[str, Any]
Table = dict[str, dict[str, float]]
Explained = Sequence[Mapping[str, Any]]


def view(
    health: Mapping[str, Any],
    partitions: Explained,
    metrics: Iterable[str],
    log: Mapping[str, Sequence[View]] = MappingProxyType({}),
) -> View:
    """`health`: of `/live` and `/ready`. `partitions`: answers to `/explain`. `metrics`: texts of
    `/metrics`, a stage's each. `log`: the last lines of each process."""
    counts, results, reasons = _counted(metrics)
    busy = [part for part in partitions if part["now"] or part["high_watermark"]]
    return {
        "health": health,
        "stages": _stages(partitions, counts, reasons["late"]),
        "partitions": _owned(partitions),
        "late": _late(partitions),
        "log": _newest(({"of": name, **line} for name in log for line in log[name]), MAX_LINES),
        "streams": [found for part in busy for found in _streams(part)][:MAX_PARTITIONS],
        "sources": _sources(busy),
        "queries": _queries(busy, results),
        "reasons": {
            "late": {name: max(counts.values()) for name, counts in reasons["late"].items()},
            "dead": {name: sum(counts.values()) for name, counts in reasons["dead"].items()},
        },
        **_deaths(partitions, reasons["late"]),
    }


def _deaths(partitions: Explained, late: Iterable[str]) -> View:
    """`alarms`: stages most of whose records are dead, and why, and sources in several partitions;
    `remedies`: by reason, why events
    are late, and of the first dead record what was wrong."""
    stages: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for part in partitions:
        stages[part["stage"]].append(part["deaths"])
    alarms: list[str] = []
    known = (cause for cause in late if cause in CAUSES)
    remedies = {cause: "; ".join([why_late(cause), *what_helps(cause)]) for cause in known}
    for stage, parts in stages.items():
        deaths = joined(parts)
        if (alarm := deaths.alarm()) is not None:
            alarms.append(f"{stage}: {alarm}")
        remedies |= {reason: first.detail for reason, first in deaths.reasons()}
    alarms += [
        line
        for part in partitions
        for stream, operators in part["streams"].items()
        for line in scattered(stream, operators.get("merge", {}).get("wandering", ()))
    ]
    return {"alarms": alarms, "remedies": remedies}


def _counted(metrics: Iterable[str]) -> tuple[Table, Table, dict[str, Table]]:
    """By stage and count; by query and word; by late or dead, and reason, and stage."""
    counts, results = _table(), _table()
    reasons = {"late": _table(), "dead": _table()}
    for family in chain.from_iterable(map(text_string_to_metric_families, metrics)):
        for sample in family.samples:
            labels, value = sample.labels, sample.value
            if family.name == RESULTS:
                results[labels["query"]][labels["op"]] += value
            elif family.name in COUNTED:
                counts[labels["stage"]][COUNTED[family.name]] += value
            if kind := REASONS.get(family.name):
                reasons[kind][labels["reason"]][labels["stage"]] += value
    return counts, results, reasons


def _table() -> Table:
    return defaultdict(lambda: defaultdict(float))


def _stages(
    partitions: Explained,
    counts: Mapping[str, Any],
    late: Mapping[str, Mapping[str, float]],
) -> list[View]:
    """In the order of the flow, as workers name them. A late event counts where that was decided,
    not in the stages behind."""
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
                by_stage.get(name, 0) for reason, by_stage in late.items() if _decides(name, reason)
            ),
        }
        for name in names
    ]


def _decides(stage: str, reason: str) -> bool:
    """Whether an operator of the stage decides that an event is late for this reason."""
    cause = CAUSES.get(reason)
    return cause is None or cause.decided_in.split(".")[1] in stage.split("+")


def _owned(partitions: Explained) -> list[View]:
    """How each partition is, those farthest behind first."""
    found = [
        {
            "stage": part["stage"],
            "name": f"{part['topic']}/{part['partition']}",
            "lag": part["high_watermark"] - (part["next_offset"] or 0),
            **{name: part.get(name) for name in OF_PARTITION},
        }
        for part in partitions
    ]
    return sorted(found, key=lambda each: -(each["lag_ns"] or 0))[:MAX_PARTITIONS]


def _late(partitions: Explained) -> list[View]:
    """The events that were late last, each where that was decided."""
    found = (
        {"stage": part["stage"], **each}
        for part in partitions
        for each in part["late"]
        if _decides(part["stage"], each["reason"])
    )
    return _newest(found, MAX_LATE)


def _newest(entries: Iterable[View], most: int) -> list[View]:
    return nlargest(most, entries, key=itemgetter("at_ns"))


def _streams(part: Mapping[str, Any]) -> Iterable[View]:
    """What each merge of the partition has reached, and who holds it."""
    for stream, operators in part["streams"].items():
        merge = operators.get("merge")
        if not merge or not merge["sources"]:
            continue
        yield {
            "stream": stream,
            "stage": part["stage"],
            "partition": part["partition"],
            "now": part["now"],
            **{
                name: merge.get(name)
                for name in ("sources", "idle", "catching_up", "blocked", "queued", "watermark_ns")
            },
            "complete_ns": merge.get("complete_ns"),
            "waits_for": merge["waits_for"][:MAX_BLOCKERS],
        }


def _sources(partitions: Explained) -> View:
    """The worst of all sources, and how many there are."""
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
                clocks += [_entry({**place, **each}, holding) for each in clock["clocks"]]
                for state in ("synced", "stale", "unsynced", "suspect", "broken"):
                    totals[state] += clock[state]
        unhealthy += [_entry(each, holding) for each in part["unhealthy"]]
    return {
        "known": known,
        "waiting_in_all": len(waiting),
        **named_sources(waiting, clocks, unhealthy),
        "states": totals,
    }


def _entry(each: Mapping[str, Any], holding: Mapping[str, set[str]]) -> View:
    """With `in_order` where REORDER of the same partition holds none of its events."""
    here = holding.get(each["stream"])
    is_in_order = here is not None and each["source"] not in here
    return {**each, IN_ORDER: True} if is_in_order else dict(each)


QUALITY: Final = ("target_ppm", "achieved_ppm", "wait_mean_ns")


def _queries(partitions: Explained, results: Mapping[str, Mapping[str, float]]) -> list[View]:
    """The results of each query, and of its promise the partition that keeps it least."""
    kept: dict[str, View] = {}
    for part in partitions:
        for operators in part["streams"].values():
            for kind in ("window", "pattern", "join"):
                for query, figures in (operators.get(kind) or {}).items():
                    if not isinstance(figures, Mapping) or "achieved_ppm" not in figures:
                        continue
                    found = {"kind": kind, **{name: figures.get(name) for name in QUALITY}}
                    before = kept.get(query)
                    if before is None or found["achieved_ppm"] < before["achieved_ppm"]:
                        kept[query] = found
    lacking = {query: words for part in partitions for query, words in part["unmet"].items()}
    names = sorted({*kept, *results, *lacking})[:MAX_QUERIES]
    return [
        {
            "query": name,
            **kept.get(name, {}),
            "results": results.get(name, {}),
            "lacks": lacking.get(name, []),
        }
        for name in names
    ]
