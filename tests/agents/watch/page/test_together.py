"""Examples: the views of several workers as one, and one that does not answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agents.watch.page.lanes import MAX_LANES
from agents.watch.page.together import together
from agents.watch.page.view import view
from agents.watch.peers import FORMAT
from tests.agents.watch.page.many import METRICS, healthy, partitions


def seen(name: str, sources: int, waiting: int, read: int, **health: Any) -> dict[str, Any]:
    found = view({**healthy(), **health}, partitions(sources, waiting), [METRICS.format(read=read)])
    return {"worker": name * 2, "name": name, **found}


def test_one_worker_stands_as_it_is() -> None:
    alone = seen("a", 5, 2, 40)
    found = together([alone], {})
    for part in ("health", "stages", "streams", "sources", "queries", "reasons"):
        assert found[part] == alone[part], part
    assert found["workers"] == [{"name": "a", **healthy()}]


def test_the_ways_of_queries_are_counted_together() -> None:
    one, other = seen("a", 5, 2, 40), seen("b", 3, 1, 2)
    one["queries"][0] |= {"ways": {"early": 2}, "held": 0}
    other["queries"][0] |= {"ways": {"early": 1, "final": 1}, "held": 4, "achieved_ppm": 1}
    (query,) = together([one, other], {})["queries"]
    assert (query["ways"], query["held"], query["achieved_ppm"]) == ({"early": 3, "final": 1}, 4, 1)
    (alone,) = together([one, seen("b", 3, 1, 2)], {})["queries"]
    assert (alone["ways"], alone["held"]) == ({"early": 2}, 0)


def test_counts_are_added_and_what_waits_is_sorted_anew() -> None:
    one, other = seen("a", 5, 2, 40), seen("b", 3, 1, 2)
    other["sources"]["waiting"][0]["since"] -= 1
    other["queries"][0]["achieved_ppm"] = 1
    found = together([one, other], {})
    (reorder, merge, _) = found["stages"]
    assert (reorder["stage"], reorder["in"], merge["topic"]) == ("reorder", 42, "before-merge")
    sources = found["sources"]
    assert (sources["known"], sources["waiting_in_all"]) == (8, 3)
    assert sources["waiting"][0]["since"] == other["sources"]["waiting"][0]["since"]
    assert [each["source"] for each in sources["clocks"]][:1] == ["press-4"]
    assert sources["states"]["synced"] == 8
    assert found["reasons"]["late"] == {"passed": 14}
    (query,) = found["queries"]
    assert "ways" not in query
    assert (query["told"], query["achieved_ppm"]) == ({"emit": 30, "update": 4}, 1)
    assert len(found["streams"]) == 2


def test_a_worker_of_an_older_version_tells_of_no_late_sources() -> None:
    older = seen("b", 3, 1, 2)
    del older["sources"]["troubled"]
    newer = seen("a", 5, 2, 40)
    found = together([newer, older], {})
    assert found["sources"]["troubled"] == newer["sources"]["troubled"]


def test_a_worker_that_tells_no_errors_is_taken_by_its_word() -> None:
    older = seen("b", 5, 1, 2)
    for each in older["sources"]["troubled"]:
        del each["late_error"], each["lost_error"]
    (worst, *_) = together([seen("a", 5, 1, 40), older], {})["sources"]["troubled"]
    assert (worst["late"], worst["late_error"], worst["lost_error"]) == (30, 0, 0)


def test_who_is_not_ready_and_who_does_not_answer_are_named() -> None:
    unready = {"ready": {"ok": False, "reasons": ["merge: restoring"]}}
    found = together([seen("a", 1, 0, 1), seen("b", 1, 0, 1, **unready)], {"http://c:1": "is gone"})
    assert found["health"]["live"] == {"ok": True, "reasons": []}
    ready = found["health"]["ready"]
    assert ready == {"ok": False, "reasons": ["b: merge: restoring", "http://c:1: is gone"]}
    assert found["workers"][2] == {"name": "http://c:1", "fault": "is gone"}
    assert found["sources"]["known"] == 2, "the others' answers stand"


def test_it_is_bounded_for_any_number_of_workers() -> None:
    views = [seen(f"w{n}", 1_000, 500, 1) for n in range(20)]
    kinds = ("waiting", "troubled", "clocks")
    for view_ in views:
        for each in (each for kind in kinds for each in view_["sources"][kind]):
            each["source"] = f"{view_['name']}-{each['source']}"
    found = together(views, {})
    named = [{each["source"] for each in found["sources"][kind]} for kind in kinds]
    assert min(map(len, named)) >= 50
    assert len(set().union(*named)) <= MAX_LANES
    assert found["sources"]["known"] == 20_000
    assert len(json.dumps(found)) < 200_000


def test_what_workers_read_of_each_other_belongs_to_its_format() -> None:
    """Who changes these words raises FORMAT, so that nobody reads a view by the wrong ones."""
    told = set(words(seen("a", 2, 1, 1)))
    assert FORMAT == 1
    assert {
        *("name", "health.live.ok", "health.ready.ok", "stages.stage", "stages.topic"),
        *("streams.stream", "streams.stage", "streams.partition"),
        *("sources.known", "sources.waiting_in_all", "sources.states.synced"),
        *("sources.waiting.source", "sources.waiting.since", "sources.waiting.now"),
        *("sources.clocks.source", "sources.clocks.error_ns"),
        *("queries.query", "queries.achieved_ppm", "queries.told.emit", "reasons.late.passed"),
    } <= told
    assert {word.partition(".")[0] for word in told} == {
        *("worker", "name", "health", "stages", "streams", "sources", "queries", "reasons")
    }


def words(part: Any, way: str = "") -> Iterator[str]:
    if isinstance(part, dict):
        for key, value in part.items():
            yield from words(value, f"{way}.{key}" if way else key)
    elif isinstance(part, list):
        for value in part:
            yield from words(value, way)
    else:
        yield way
