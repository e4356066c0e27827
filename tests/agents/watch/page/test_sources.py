"""Examples: which named_sources are named, and that each is entry whole."""

from __future__ import annotations

from typing import Any

from agents.watch.page import sources as chosen
from agents.watch.page.sources import MAX_SOURCES, merged, named_sources

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


def test_the_worst_of_each_kind_are_named_and_no_others(monkeypatch: Any) -> None:
    for bound in ("MAX_WAITING", "MAX_HOLDING", "MAX_LATE", "MAX_LOST", "MAX_UNSURE"):
        monkeypatch.setattr(chosen, bound, 1)
    found = named_sources(
        [wait("long", for_ns=9), wait("full", held=9), wait("neither")],
        [clock("unsure", 9), clock("sure", 1), clock("long", 0)],
        [trouble("late", late=9), trouble("lossy", gaps=1, lost=9), trouble("hardly", 1, 1, 1)],
    )
    assert names(found["waiting"]) == ["long", "full"]
    assert names(found["unhealthy"]) == ["late", "lossy"]
    assert names(found["clocks"]) == ["unsure", "long"], "all that is known of a named lane"


def test_one_that_is_late_and_waits_is_told_to_wait_behind_any_number_that_wait_longer() -> None:
    waiting = [wait(f"w{n}", held=2, for_ns=n + 2) for n in range(5_000)]
    found = named_sources([*waiting, wait("late", for_ns=1)], [], [trouble("late", late=1)])
    assert names(found["waiting"])[-1] == "late"
    assert len(found["waiting"]) < MAX_SOURCES


def test_a_lane_that_several_stages_count_is_told_once_with_the_most() -> None:
    (entry,) = merged(
        [
            {**trouble("a", late=3, gaps=1, lost=5), "late_error": 9, "lost_error": 0},
            {**trouble("a", late=7), "in_order": True, "late_error": 2, "lost_error": 6},
        ]
    )
    errors = {"late_error": 5, "lost_error": 1}
    assert entry == {**trouble("a", late=7, gaps=1, lost=5), "in_order": True, **errors}


def test_sources_of_one_name_in_two_streams_are_two_lanes() -> None:
    found = named_sources([], [], [trouble("a", late=1), {**trouble("a", late=2), "stream": "t"}])
    assert [(each["stream"], each["late"]) for each in found["unhealthy"]] == [("t", 2), ("s", 1)]


def test_a_source_in_two_partitions_is_told_once_by_where_it_waits_longer() -> None:
    (entry,) = named_sources([wait("a", for_ns=1), wait("a", held=3, for_ns=5)], [], [])["waiting"]
    assert entry["held"] == 3
