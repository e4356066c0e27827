"""Examples and a law: which verdict each change of a topology file gets."""

from __future__ import annotations

import re
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from aiokafka.structs import TopicPartition

from agents.stage.arrangement import Arrangement, ArrangementError, arrange, topics_of
from topology.config import Topology, parse
from topology.config.change import (
    BEGINS,
    ENDS,
    REFUSED,
    Contract,
    Difference,
    Facts,
    abandoned,
    differences,
    extended,
    places,
    reads_alike,
    refusals,
    returned,
    taken,
)

WINDOW = "w: {stream: default, window: tumbling 1s, aggregate: {n: count()}}"
OTHER = "v: {stream: default, window: tumbling 2s, aggregate: {n: count()}}"
CHANGED = "w: {stream: default, window: tumbling 3s, aggregate: {n: count()}}"
TABLE = "w: {stream: default, window: tumbling 1s, aggregate: {n: count()}, upsert: true}"


def file(
    streams: str = "default: {}", queries: str = WINDOW, more: str = "topics: {partitions: 1}"
) -> str:
    return f"streams: {{{streams}}}\nqueries: {{{queries}}}\n{more}\n"


BASE = file()


def arranged(text: str, stage: str, partitions: int = 1) -> Arrangement:
    topology = parse(text)
    chosen = next(each for each in topology.stages if each.name == stage)
    return arrange(topology, chosen, dict.fromkeys(topics_of(topology, chosen), partitions))


def contract(text: str, stage: str) -> Contract:
    made = arranged(text, stage)
    return made.contract(TopicPartition(made.inputs[0], 0))


def compared(was: str, now: str, stage: str, facts: Facts = Facts()) -> list[Difference]:  # noqa: B008
    return differences(contract(was, stage), contract(now, stage), parse(now), facts)


FIRST, LOOKS = "reorder+merge", "window"
MAPPED = "default: {fields: {source: payload.s, seq: payload.q}}"
TWO = "default: {}, second: {}"
WAITS = Facts(waiting={"second"})
UNREAD = Facts(unread=True)
MIXED = "default: {reorder: {without_seq: by_time}}"
HEADERS = "default: {headers: {preset: cloudevents}}"

# docs/operate/change.md has these rows, by their names.
ROWS = {
    "waits and bounds": (
        BASE, file("default: {reorder: {max_wait: 9s, late: side, max_held: 9}}"), FIRST, Facts(),
        [],
    ),
    "delivery and store": (
        BASE, file(more="topics: {partitions: 1}\ndelivery: at_least_once\nstate: memory"), FIRST,
        Facts(), [],
    ),
    "order in the file": (file(TWO), file("second: {}, default: {}"), FIRST, Facts(), []),
    "a mapping": (BASE, file(MAPPED), FIRST, Facts(), [("streams.default.fields", BEGINS)]),
    "a mapping, while something is unread between": (
        BASE, file(MAPPED), FIRST, UNREAD, [("streams.default.fields", BEGINS)],
    ),
    "header names": (BASE, file(HEADERS), FIRST, Facts(), [("streams.default.headers", BEGINS)]),
    "header names, while something is unread between": (
        BASE, file(HEADERS), LOOKS, UNREAD, [("streams.default.headers", REFUSED)],
    ),
    "a query added": (BASE, file(queries=f"{WINDOW}, {OTHER}"), LOOKS, Facts(),
        [("queries.v", BEGINS)]),
    "a query removed": (file(queries=f"{WINDOW}, {OTHER}"), BASE, LOOKS, Facts(),
        [("queries.v", ENDS)]),
    "a query changed": (BASE, file(queries=CHANGED), LOOKS, Facts(), [("queries.w", BEGINS)]),
    "a stream added": (BASE, file(TWO), FIRST, Facts(), [("streams.second", BEGINS)]),
    "a stream removed": (file(TWO), BASE, FIRST, Facts(), [("streams.second", ENDS)]),
    "a stream removed that waits": (file(TWO), BASE, FIRST, WAITS, [("streams.second", REFUSED)]),
    "a stream renamed": (
        BASE, file("other: {}", WINDOW.replace("default", "other")), FIRST, Facts(),
        [("streams.default", REFUSED)],
    ),
    "an output": (BASE, file("default: {output: o}"), FIRST, Facts(),
        [("streams.default.output", REFUSED)]),
    "a topic of results": (BASE, file(more="topics: {partitions: 1, windows: o}"), LOOKS, Facts(),
        [("results of window", REFUSED)]),
    "a table no more": (file(queries=TABLE), BASE, LOOKS, Facts(), [("queries.w.upsert", REFUSED)]),
    "a table where there was none": (BASE, file(queries=TABLE), LOOKS, Facts(),
        [("queries.w.upsert", REFUSED)]),
    "order by time": (BASE, file("default: {reorder: {rule: time}}"), FIRST, Facts(),
        [("streams.default.reorder.rule", REFUSED)]),
    "records without numbers, taken": (BASE, file(MIXED), FIRST, Facts(),
        [("streams.default.reorder.without_seq", BEGINS)]),
    "records without numbers, dead": (file(MIXED), BASE, FIRST, Facts(),
        [("streams.default.reorder.without_seq", REFUSED)]),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_each_change_has_its_verdict(row: str) -> None:
    was, now, stage, facts, says = ROWS[row]
    found = compared(was, now, stage, facts)
    assert [(each.path, each.verdict) for each in found] == says
    for each in found:
        assert bool(each.remedy) == (each.verdict == REFUSED)
        assert str(each).startswith(each.verdict)
        assert each.effect in str(each)


def test_a_law_over_pairs_of_files() -> None:
    """Each difference has one verdict, files that are equal have none, and what is read from the
    brokers changes a verdict only where it is asked for."""
    texts = list(dict.fromkeys(text for was, now, *_ in ROWS.values() for text in (was, now)))
    for stage in (FIRST, LOOKS):
        for text in texts:
            assert compared(text, text, stage) == []
        for was, now in permutations(texts, 2):
            found = compared(was, now, stage)
            paths = [each.path for each in found]
            assert len(paths) == len(set(paths))
            old, new = contract(was, stage), contract(now, stage)
            assert bool(found) == (
                old._replace(inputs=[], lanes=[]) != new._replace(inputs=[], lanes=[])
            )
            if old.streams.keys() <= new.streams.keys() and reads_alike(old, new):
                assert compared(was, now, stage, Facts({"default", "second"}, unread=True)) == found


def test_every_refusal_names_new_outputs_and_no_refusal_advises_the_name_alone() -> None:
    """Another application in the same outputs would count everything twice."""
    for was, now, stage, facts, _ in ROWS.values():
        said = refusals(compared(was, now, stage, facts))
        if "application" in said and "begin anew" in said:
            assert "streams." in said
            assert "output: " in said


# -- what no stage goes on with --------------------------------------------------------------------

ONE = "streams: {default: {}}\ntopics: {partitions: 1}\n"
SPLIT = f"{ONE}stages: [reorder, merge, window]\n"


def left(text: str, stage: str, topic: str, *, partitions: int = 1, lost: str = "") -> Difference:
    counts = dict.fromkeys(["events.raw", topic], partitions)
    return abandoned(stage, topic, lost, parse(text), counts)


@pytest.mark.parametrize(
    ("text", "stage", "topic", "remedy"),
    [
        (ONE, "reorder", "events.raw", "stages: [reorder, merge, window, pattern, join]"),
        (ONE, "merge", "events.sequenced", "stages: [reorder, merge, window, pattern, join]"),
        (SPLIT, "reorder+merge", "events.raw", "stages: [reorder+merge, window, pattern, join]"),
    ],
)
def test_another_cut_is_refused(text: str, stage: str, topic: str, remedy: str) -> None:
    found = left(text, stage, topic)
    assert found.verdict == REFUSED
    assert remedy in found.remedy
    assert "new names for what it writes" in found.remedy


def test_queries_that_moved_to_another_stage_are_refused() -> None:
    """Their results bear the same ids, and would begin with revision 0 again."""
    joined = file(more="topics: {partitions: 1}\nstages: [reorder+merge, window+pattern]")
    assert left(joined, "window", "events.ordered").verdict == REFUSED
    assert left(ONE, "window", "events.ordered").verdict == ENDS


def test_an_input_is_left_only_when_it_is_drained() -> None:
    now = "streams: {default: {input: other}}\ntopics: {partitions: 1}\n"
    assert left(now, "reorder+merge", "events.raw").verdict == ENDS
    for lost in ("buffered events", "unread records"):
        found = left(now, "reorder+merge", "events.raw", lost=lost)
        assert lost in found.effect
        assert (found.verdict, found.path) == (REFUSED, "input events.raw")
        assert "put it back" in found.remedy


def test_an_input_that_was_left_is_not_put_back() -> None:
    found = returned("reorder+merge", "other", "events.raw", parse(ONE))
    assert (found.verdict, found.path) == (REFUSED, "input events.raw")
    assert "put other back" in found.remedy
    assert "new names for what it writes" in found.remedy


@pytest.mark.parametrize("text", [ONE, "streams: {default: {}}\nstages: [reorder+merge, window]\n"])
def test_sources_in_several_partitions_of_one_stage_are_refused(text: str) -> None:
    arranged(text, "reorder+merge")
    with pytest.raises(ArrangementError, match=r"3 partitions of events\.raw") as refused:
        arranged(text, "reorder+merge", 3)
    said = str(refused.value)
    assert "either write `keyed_by: stream`" in said
    assert "`partitions: 3`" not in said
    arranged(text.replace("{default: {}}", "{default: {keyed_by: stream}}"), "reorder+merge", 3)


def test_no_refusal_advises_what_another_one_refuses() -> None:
    """An input of one partition has grown to three, and the stages are two now."""
    found = left(SPLIT, "reorder+merge", "events.raw", partitions=3)
    assert "write the stages as they were" not in found.remedy
    assert "either write `keyed_by: stream`" in found.remedy
    assert "drain it, then begin a new application with a new input topic" in found.remedy


def test_outputs_of_another_are_refused() -> None:
    found = taken("reorder+merge", ["events.ordered"], parse(ONE))
    assert found.verdict == REFUSED
    assert "streams.default.output: events.ordered-2" in found.remedy
    assert "--take-over now" in found.remedy


# -- upstream partitions ---------------------------------------------------------------------------


@pytest.mark.parametrize("added", ["a", "m", "z"])
def test_a_new_input_comes_behind_those_that_are_there(added: str) -> None:
    before = extended([], {"k": 2, "p": 3})
    assert before == [("k", 0, 2), ("p", 0, 3)]
    after = extended(before, {"k": 2, "p": 3, added: 2})
    assert after[:2] == before
    assert after[2:] == [(added, 0, 2)]
    assert extended(after, {"k": 4, "p": 3, added: 2})[3:] == [("k", 2, 2)]
    assert extended(after, {"k": 2}) == after


def test_an_input_that_grows_keeps_its_numbers_in_as_few_stretches_as_can_be() -> None:
    before = extended([], {"k": 2, "p": 3})
    assert extended(before, {"k": 2, "p": 5}) == [("k", 0, 2), ("p", 0, 5)]
    for grown in ({"k": 2, "p": 5}, {"k": 4, "p": 3}, {"a": 1, "k": 4, "p": 5}):
        after = places(extended(before, grown))
        assert after[:5] == places(before)
        assert sorted(after) == [(topic, n) for topic in sorted(grown) for n in range(grown[topic])]


def test_a_layout_of_another_version_is_refused() -> None:
    was, now = contract(BASE, FIRST), contract(BASE, FIRST)
    was.shapes["clock"] += 1
    topology: Topology = parse(BASE)
    (found,) = differences(was, now, topology)
    assert (found.path, found.verdict) == ("state of clock", REFUSED)
    assert "go on with the version that wrote it" in found.remedy


# -- the page ------------------------------------------------------------------------------------

PAGE = Path(__file__).parents[3] / "docs/operate/change.md"
ON_PAGE: dict[str, list[Any]] = {
    "waits and bounds": ["waits and bounds"],
    "delivery and store": ["delivery and store"],
    "order in the file": ["order in the file"],
    "a mapping": ["a mapping", "a mapping, while something is unread between"],
    "header names, `format` or `schema`, with nothing unread between the stages": ["header names"],
    "header names, `format` or `schema`, while something is unread between the stages": [
        "header names, while something is unread between"
    ],
    "the first query of a kind": [],
    "a query added": ["a query added"],
    "a query changed, renamed or put back": ["a query changed"],
    "a query removed": ["a query removed"],
    "a stream added": ["a stream added"],
    "a stream removed": ["a stream removed"],
    "a stream removed that waits": ["a stream removed that waits"],
    "a stream renamed": ["a stream renamed"],
    "an input, drained": [test_an_input_is_left_only_when_it_is_drained],
    "an input that was left before, put back": [test_an_input_that_was_left_is_not_put_back],
    "an input with buffered or unread records": [test_an_input_is_left_only_when_it_is_drained],
    "an output, or a topic of results": ["an output", "a topic of results", "a table no more"],
    "the partitions of an output": ["an output"],
    "order by time, or by number": ["order by time"],
    "`without_seq: by_time` added": ["records without numbers, taken"],
    "`without_seq: by_time` taken out": ["records without numbers, dead"],
    "the stages": [
        test_another_cut_is_refused,
        test_queries_that_moved_to_another_stage_are_refused,
    ],
    "`[reorder+merge]` over several partitions, `keyed_by: source`": [
        test_sources_in_several_partitions_of_one_stage_are_refused
    ],
    "the application's name, or its state deleted": [test_outputs_of_another_are_refused],
}
"""The rows of the page's table, and what shows each."""


def test_the_page_has_each_verdict_and_nothing_else() -> None:
    lines = PAGE.read_text().split("## Look up a change")[1].splitlines()
    rows = [line.split("|")[1:3] for line in lines if line.startswith("| ")][2:]
    named = {re.sub(r" \(.*\)$", "", name.strip()): verdict.strip() for name, verdict in rows}
    assert named.keys() == ON_PAGE.keys()
    shown = {each for found in ON_PAGE.values() for each in found if isinstance(each, str)}
    assert ROWS.keys() - shown == {"a table where there was none"}
    words = {None: "nothing to do", BEGINS: "begins", ENDS: "ends", REFUSED: "refused"}
    for name, found in ON_PAGE.items():
        for each in found:
            if isinstance(each, str):
                says = ROWS[each][-1]
                assert named[name].startswith(words[says[0][1] if says else None]), name
