"""What the page shows, as one value, bounded for any number of sources.

It is worked out from what stages answer. Counts are totals since the workers started; whoever looks
works out rates. Which sources are told is chosen in `agents.watch.page.lanes`, and how many there
are is told too.

Proved by: tests/agents/watch/page/test_view.py
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from agents.watch.page.lanes import IN_ORDER, lanes

MAX_BLOCKERS: Final = 200
MAX_PARTITIONS: Final = 500
MAX_QUERIES: Final = 200
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
}
"""Families of metrics, and what the page calls them."""

REASONS: Final = {"inorder_records_late": "late", "inorder_records_dead": "dead"}
RESULTS: Final = "inorder_results"

View = dict[str, Any]
Explained = Sequence[Mapping[str, Any]]


def view(health: Mapping[str, Any], partitions: Explained, metrics: Iterable[str]) -> View:
    """`health`: of `/live` and `/ready`. `partitions`: answers to `/explain`. `metrics`: texts of
    `/metrics`, a worker's or a stage's each."""
    counts, results, reasons = _counted(metrics)
    busy = [part for part in partitions if part["now"] or part["high_watermark"]]
    return {
        "health": health,
        "stages": _stages(partitions, counts),
        "streams": [found for part in busy for found in _streams(part)][:MAX_PARTITIONS],
        "sources": _sources(busy),
        "queries": _queries(busy, results),
        "reasons": reasons,
    }


def _counted(
    metrics: Iterable[str],
) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, float]], dict[str, dict[str, float]]]:
    """By stage and count; by query and word; by late or dead, and reason."""
    counts: dict[str, dict[str, float]] = {}
    results: dict[str, dict[str, float]] = {}
    reasons: dict[str, dict[str, float]] = {"late": {}, "dead": {}}
    for text in metrics:
        for family in text_string_to_metric_families(text):
            if family.name not in COUNTED and family.name != RESULTS:
                continue
            for sample in family.samples:
                if sample.name.endswith("_created"):
                    continue
                if family.name == RESULTS:
                    place, word = (
                        results.setdefault(sample.labels["query"], {}),
                        sample.labels["op"],
                    )
                else:
                    place = counts.setdefault(sample.labels["stage"], {})
                    word = COUNTED[family.name]
                place[word] = place.get(word, 0.0) + sample.value
                if kind := REASONS.get(family.name):
                    reason = sample.labels["reason"]
                    told = reasons[kind]
                    told[reason] = told.get(reason, 0.0) + sample.value
    return counts, results, reasons


def _stages(partitions: Explained, counts: Mapping[str, Any]) -> list[View]:
    """In the order of the flow, as workers name them."""
    names = dict.fromkeys([part["stage"] for part in partitions] + list(counts))
    topics = {part["stage"]: part["topic"] for part in partitions}
    return [
        {"stage": name, "topic": topics.get(name, ""), **counts.get(name, {})} for name in names
    ]


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
    """The worst of all lanes, and how many there are."""
    waiting: list[View] = []
    clocks: list[View] = []
    troubled: list[View] = []
    totals: dict[str, int] = {}
    known = 0
    for part in partitions:
        holding: dict[str, set[str]] = {}
        for stream, operators in part["streams"].items():
            place = {"stream": stream, "now": part["now"]}
            reorder, clock = operators.get("reorder"), operators.get("clock")
            if reorder:
                known += reorder["sources"]
                waiting += [{**place, **each} for each in reorder["waiting"]]
                holding[stream] = {each["source"] for each in reorder["waiting"]}
            if clock:
                clocks += [_lane({**place, **each}, holding) for each in clock["clocks"]]
                for state in ("synced", "stale", "unsynced", "suspect", "broken"):
                    totals[state] = totals.get(state, 0) + clock[state]
        troubled += [_lane(each, holding) for each in part["troubled"]]
    return {
        "known": known,
        "waiting_in_all": len(waiting),
        **lanes(waiting, clocks, troubled),
        "states": totals,
    }


def _lane(each: Mapping[str, Any], holding: Mapping[str, set[str]]) -> View:
    """With `in_order` where REORDER of the same partition holds none of its events."""
    here = holding.get(each["stream"])
    is_in_order = here is not None and each["source"] not in here
    return {**each, IN_ORDER: True} if is_in_order else dict(each)


QUALITY: Final = ("promised_ppm", "achieved_ppm", "wait_mean_ns")


def _queries(partitions: Explained, results: Mapping[str, Mapping[str, float]]) -> list[View]:
    """What each query has told, and of its promise the partition that keeps it least."""
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
    chosen = _chosen(partitions)
    names = sorted({*kept, *results, *chosen})[:MAX_QUERIES]
    return [
        {"query": name, **kept.get(name, {}), **chosen.get(name, {}), "told": results.get(name, {})}
        for name in names
    ]


def _chosen(partitions: Explained) -> dict[str, View]:
    """Queries that choose how they answer: in how many partitions each way is on, and how many
    results are held."""
    found: dict[str, View] = {}
    for part in partitions:
        queries = dict(part.get("answers") or {})
        for operators in part["streams"].values():
            queries |= operators.get("detector") or {}
        for name, figures in queries.items():
            auto = figures.get("auto") if isinstance(figures, Mapping) else None
            if not isinstance(auto, Mapping) or not auto["ways"]:
                continue  # or nothing has come to choose by
            of = found.setdefault(name, {"ways": {}, "held": 0})
            of["ways"][auto["answer"]] = of["ways"].get(auto["answer"], 0) + 1
            of["held"] += figures["held"] if name in (part.get("answers") or {}) else 0
    return found
