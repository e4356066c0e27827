"""Examples: the page's data for few and many sources, and the choice of named sources."""

from __future__ import annotations

import json
from typing import Any

from agents.watch.page import sources as chosen
from agents.watch.page.sources import MAX_SOURCES, choose_sources, merge_entries
from agents.watch.page.view import build_view
from tests.agents.watch.page.many import MERGE, METRICS, healthy, partitions, worst_of


def test_counts_are_summed() -> None:
    seen = build_view(
        healthy(), partitions(3, 1), [METRICS.format(read=40), METRICS.format(read=2)]
    )
    (reorder, merge, window) = seen["stages"]
    assert (reorder["stage"], reorder["in"], reorder["late"]) == ("reorder", 42, 14)
    assert (merge["stage"], window["topic"]) == ("merge", "before-window")
    assert seen["reasons"] == {"late": {"passed": 14}, "dead": {}}
    (query,) = seen["queries"]
    assert query["results"] == {"emit": 30, "early": 10, "update": 4}
    assert (query["kind"], query["achieved_ppm"]) == ("window", 970_000)


REASONS = """\
# TYPE inorder_records_{kind}_total counter
inorder_records_{kind}_total{{stage="{stage}",stream="s",partition="0",reason="r"}} {count}
"""


def test_late_event_counts_once() -> None:
    counts = (("late", "reorder", 3), ("late", "merge", 5), ("dead", "reorder", 3))
    texts = [REASONS.format(kind=kind, stage=stage, count=n) for kind, stage, n in counts]
    texts.append(REASONS.format(kind="dead", stage="merge", count=5))
    assert build_view(healthy(), [], texts)["reasons"] == {"late": {"r": 5}, "dead": {"r": 8}}


def test_first_stage_counts_late_event() -> None:
    """REORDER emits the event marked as late, and MERGE counts it again."""
    counts = (("gap", "reorder", 3), ("gap", "merge", 3), ("merge_wait", "merge", 5))
    texts = [
        REASONS.format(kind="late", stage=stage, count=n).replace('"r"', f'"{reason}"')
        for reason, stage, n in counts
    ]
    parts = partitions(3, 0)
    note = {"source": "s", "reason": "gap", "at_ns": 5}
    parts[0]["late"] = [note]
    parts[1]["late"] = [note, {**note, "reason": "merge_wait", "at_ns": 7}]
    seen = build_view(healthy(), parts, texts)
    late = {stage["stage"]: stage["late"] for stage in seen["stages"]}
    assert late == {"reorder": 3, "merge": 5, "window": 0}
    last = [(each["stage"], each["reason"]) for each in seen["late"]]
    assert last == [("merge", "merge_wait"), ("reorder", "gap")]
    assert seen["remedies"]["gap"].startswith("reorder had given up its number")
    assert "what helps: a larger reorder.max_wait" in seen["remedies"]["gap"]


def test_largest_lag_comes_first() -> None:
    parts = partitions(3, 0)
    parts[1].update(next_offset=4, lag_ns=2_000, checkpoint_bytes=77)
    first, *_ = build_view(healthy(), parts, [])["partitions"]
    found = first["stage"], first["name"], first["lag"], first["checkpoint_bytes"]
    assert found == ("merge", "before-merge/0", 5, 77)


def test_task_shows_buffer_once() -> None:
    (task, *_) = partitions(3, 2)
    lanes = [
        {name: task[name] for name in ("topic", "next_offset", "high_watermark")}
        | {"partition": number, "lag_ns": number}
        for number in range(3)
    ]
    found = build_view(healthy(), [{**task, "held": 5, "lanes": lanes}], [])["partitions"]
    assert [each["lag_ns"] for each in found] == [2, 1, 0]
    assert [each["held"] for each in found] == [5, None, None]


def test_longest_wait_comes_first() -> None:
    sources = build_view(healthy(), partitions(5, 3), [])["sources"]
    assert [each["source"] for each in sources["waiting"]] == ["press-0", "press-1", "press-2"]
    assert [each["source"] for each in sources["clocks"]][:2] == ["press-4", "press-3"]
    assert (sources["known"], sources["waiting_in_all"]) == (5, 3)
    assert sources["states"]["synced"] == 5
    unhealthy = sources["unhealthy"]
    counts = {"late": 30, "late_error": 0, "gaps": 1, "lost": 30, "lost_error": 0}
    assert unhealthy[0] == {"stream": "default", "source": "press-3", "in_order": True, **counts}
    assert [(each["late"], each["lost"]) for each in unhealthy[1:]] == [(3, 3)] * 4
    in_order = {each["source"] for each in sources["clocks"] if each.get("in_order")}
    assert in_order == {"press-3", "press-4"}


def test_large_view_is_bounded() -> None:
    seen = build_view(healthy(), partitions(10_000, 4_000), [])
    sources = seen["sources"]
    named = [sources[name] for name in ("waiting", "unhealthy", "clocks")]
    lanes = {each["source"] for told in named for each in told}
    assert 150 < len(lanes) <= MAX_SOURCES
    worst = sources["unhealthy"][0]
    assert worst["source"] == worst_of(10_000), "of all that are late, ten times as often"
    assert worst["late"] <= 30 <= worst["late"] + worst["late_error"]
    assert worst["lost"] <= 30 <= worst["lost"] + worst["lost_error"]
    assert (sources["known"], sources["waiting_in_all"]) == (10_000, 4_000)
    assert len(json.dumps(seen)) < 200_000


def test_unread_partition_is_left_out() -> None:
    found = partitions(2, 0)
    for part in found:
        part.update(now=0, high_watermark=0)
    seen = build_view(healthy(), found, [])
    assert (seen["streams"], seen["queries"], seen["sources"]["known"]) == ([], [], 0)
    assert [stage["stage"] for stage in seen["stages"]] == ["reorder", "merge", "window"]


def test_wandering_source_raises_alarm() -> None:
    parts = partitions(3, 0)
    parts[1]["streams"]["default"]["merge"] = {**MERGE, "wandering": ["a", "b"]}
    (alarm,) = build_view(healthy(), parts, [])["alarms"]
    assert alarm == (
        "default: 2 sources arrived in several partitions of the input (a, b); key its records by"
        " source"
    )


# -- the choice of named sources ---------------------------------------------------------------


NOW_NS = 1_000_000_000


def wait(source: str, held: int = 1, for_ns: int = 0) -> dict[str, Any]:
    since_ns = NOW_NS - for_ns
    return {"stream": "s", "source": source, "held": held, "now": NOW_NS, "since": since_ns}


def trouble(source: str, late: int = 0, gaps: int = 0, lost: int = 0) -> dict[str, Any]:
    errors = {"late_error": 0, "lost_error": 0}
    return {"stream": "s", "source": source, "late": late, "gaps": gaps, "lost": lost, **errors}


def clock(source: str, error_ns: int = 0) -> dict[str, Any]:
    return {"stream": "s", "source": source, "error_ns": error_ns}


def names(entry: list[Any]) -> list[str]:
    return [each["source"] for each in entry]


def test_worst_of_each_kind_are_named(monkeypatch: Any) -> None:
    for bound in ("MAX_WAITING", "MAX_HOLDING", "MAX_LATE", "MAX_LOST", "MAX_UNSURE"):
        monkeypatch.setattr(chosen, bound, 1)
    found = choose_sources(
        [wait("long", for_ns=9), wait("full", held=9), wait("neither")],
        [clock("unsure", 9), clock("sure", 1), clock("long", 0)],
        [trouble("late", late=9), trouble("lossy", gaps=1, lost=9), trouble("hardly", 1, 1, 1)],
    )
    assert names(found["waiting"]) == ["long", "full"]
    assert names(found["unhealthy"]) == ["late", "lossy"]
    assert names(found["clocks"]) == ["unsure", "long"], "all that is known of a named lane"


def test_late_source_is_also_waiting() -> None:
    """A late source is listed as waiting, however many others have waited longer."""
    waiting = [wait(f"w{n}", held=2, for_ns=n + 2) for n in range(5_000)]
    found = choose_sources([*waiting, wait("late", for_ns=1)], [], [trouble("late", late=1)])
    assert names(found["waiting"])[-1] == "late"
    assert len(found["waiting"]) < MAX_SOURCES


def test_entries_of_stages_are_merged() -> None:
    (entry,) = merge_entries(
        [
            {**trouble("a", late=3, gaps=1, lost=5), "late_error": 9, "lost_error": 0},
            {**trouble("a", late=7), "in_order": True, "late_error": 2, "lost_error": 6},
        ]
    )
    errors = {"late_error": 5, "lost_error": 1}
    assert entry == {**trouble("a", late=7, gaps=1, lost=5), "in_order": True, **errors}


def test_streams_separate_equal_names() -> None:
    found = choose_sources([], [], [trouble("a", late=1), {**trouble("a", late=2), "stream": "t"}])
    assert [(each["stream"], each["late"]) for each in found["unhealthy"]] == [("t", 2), ("s", 1)]


def test_source_shows_longest_wait() -> None:
    (entry,) = choose_sources([wait("a", for_ns=1), wait("a", held=3, for_ns=5)], [], [])["waiting"]
    assert entry["held"] == 3
