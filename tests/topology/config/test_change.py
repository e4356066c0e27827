"""Examples and a law: the verdict on each change of a topology file."""

from __future__ import annotations

import re
from functools import cache
from itertools import permutations

import pytest
from aiokafka.structs import TopicPartition

from tests import ROOT
from tests.agents.records import arranged
from topology.config import Topology, change, parse
from topology.config.change import (
    BEGINS,
    ENDS,
    REFUSED,
    Contract,
    Difference,
    Facts,
    find_differences,
)
from topology.config.stages import ALL

WINDOW = "w: {stream: default, window: tumbling 1s, aggregate: {n: count()}}"
OTHER = "v: {stream: default, window: tumbling 2s, aggregate: {n: count()}}"
CHANGED = "w: {stream: default, window: tumbling 3s, aggregate: {n: count()}}"
TABLE = "w: {stream: default, window: tumbling 1s, aggregate: {n: count()}, upsert: true}"


QUERIES = f"{WINDOW}, {OTHER}"
ONE_PART = "topics: {partitions: 1}"
CUT = "stages: [reorder+merge, window, pattern, join]\n"


def file(
    streams: str = "default: {}", queries: str = WINDOW, more: str = ONE_PART, stages: str = CUT
) -> str:
    return f"streams: {{{streams}}}\nqueries: {{{queries}}}\n{more}\n{stages}"


BASE = file()
parsed = cache(parse)


@cache
def contract(text: str, stage: str) -> Contract:
    return contract_of(parsed(text), stage)


def contract_of(topology: Topology, stage: str) -> Contract:
    made = arranged(topology, stage)
    return made.contract(TopicPartition(made.inputs[0], 0))


def compared(was: str, now: str, stage: str, facts: Facts = Facts()) -> list[Difference]:  # noqa: B008
    """Return the differences in one stage of the split files, or of the files without `stages`."""
    if stage == ALL:
        was, now = was.replace(CUT, ""), now.replace(CUT, "")
    return find_differences(contract(was, stage), contract(now, stage), parsed(now), facts)


FIRST, LOOKS = "reorder+merge", "window"
MAPPED = "default: {fields: {source: payload.s, seq: payload.q}}"
TWO = "default: {}, second: {}"
UNREAD = Facts(unread=True)
MIXED = "default: {reorder: {without_seq: by_time}}"
WITHOUT_SEQ = "streams.default.reorder.without_seq"
BITS = "default: {reorder: {seq_bits: 16}}"
SEQ_RANGE = "streams.default.reorder.seq_range"
HEADERS = "default: {headers: {preset: cloudevents}}"

Row = tuple[str, str, str, Facts, list[tuple[str, str]]]


def row(
    now: str,
    path: str = "",
    verdict: str = "",
    *,
    was: str = BASE,
    stage: str = FIRST,
    facts: Facts = Facts(),  # noqa: B008
) -> Row:
    """Return a change and its expected verdict; without a path none is expected."""
    return was, now, stage, facts, [(path, verdict)] if path else []


# docs/operate/change.md lists rows by these names.
ROWS = {
    "waits and bounds": row(file("default: {reorder: {max_wait: 9s, late: side, max_held: 9}}")),
    "delivery and store": row(file(more=f"{ONE_PART}\ndelivery: at_least_once\nstate: memory")),
    "order in the file": row(file("second: {}, default: {}"), was=file(TWO)),
    "a mapping": row(file(MAPPED), "streams.default.fields", BEGINS),
    "a mapping, while something is unread between": row(
        file(MAPPED), "streams.default.fields", BEGINS, facts=UNREAD
    ),
    "header names, `format` or `schema`, with nothing unread between the stages": row(
        file(HEADERS), "streams.default.headers", BEGINS
    ),
    "header names, `format` or `schema`, while something is unread between the stages": row(
        file(HEADERS), "streams.default.headers", REFUSED, stage=LOOKS, facts=UNREAD
    ),
    "a query added": row(file(queries=QUERIES), "queries.v", BEGINS, stage=LOOKS),
    "a query removed": row(BASE, "queries.v", ENDS, was=file(queries=QUERIES), stage=LOOKS),
    "a query changed, renamed or put back": row(
        file(queries=CHANGED), "queries.w", BEGINS, stage=LOOKS
    ),
    "a stream added": row(file(TWO), "streams.second", BEGINS),
    "a stream removed": row(BASE, "streams.second", ENDS, was=file(TWO)),
    "a stream removed that waits": row(
        BASE, "streams.second", REFUSED, was=file(TWO), facts=Facts(waiting={"second"})
    ),
    "a stream renamed": row(
        file("other: {}", WINDOW.replace("default", "other")), "streams.default", REFUSED
    ),
    "an output, or a topic of results": row(
        file("default: {output: o}"), "streams.default.output", REFUSED
    ),
    "a topic of results": row(
        file(more=f"{ONE_PART[:-1]}, windows: o}}"), "results of window", REFUSED, stage=LOOKS
    ),
    "a table no more": row(BASE, "queries.w.upsert", REFUSED, was=file(queries=TABLE), stage=LOOKS),
    "a table where there was none": row(
        file(queries=TABLE), "queries.w.upsert", REFUSED, stage=LOOKS
    ),
    "order by time, or by number": row(
        file("default: {reorder: {rule: time}}"), "streams.default.reorder.rule", REFUSED
    ),
    "`seq_bits` or `seq_range` added": row(file(BITS), SEQ_RANGE, BEGINS),
    "`seq_bits` or `seq_range` changed or taken out": row(
        file("default: {reorder: {seq_range: 1 to 65535}}"), SEQ_RANGE, REFUSED, was=file(BITS)
    ),
    "the range taken out": row(BASE, SEQ_RANGE, REFUSED, was=file(BITS)),
    "the same range in other words": row(
        file("default: {reorder: {seq_range: 0 to 65535}}"), was=file(BITS)
    ),
    "`without_seq: by_time` added": row(file(MIXED), WITHOUT_SEQ, BEGINS),
    "`without_seq: by_time` taken out": row(BASE, WITHOUT_SEQ, REFUSED, was=file(MIXED)),
}


@pytest.mark.parametrize("row", ROWS)
def test_each_change_has_its_verdict(row: str) -> None:
    was, now, stage, facts, says = ROWS[row]
    found = compared(was, now, stage, facts)
    assert [(each.path, each.verdict) for each in found] == says
    if facts != UNREAD:  # In one stage no topic lies between the operators.
        whole = compared(was, now, ALL, facts)
        assert says[0] in [(each.path, each.verdict) for each in whole] if says else not whole
    for each in found:
        assert bool(each.remedy) == (each.verdict == REFUSED)
        assert str(each).startswith(each.verdict)
        assert each.effect in str(each)


@pytest.mark.parametrize(
    ("stage", "facts", "verdict"),
    [(FIRST, Facts(), BEGINS), (LOOKS, Facts(), BEGINS), (LOOKS, UNREAD, REFUSED)],
)
def test_reader_schema_edit_is_a_change(stage: str, facts: Facts, verdict: str) -> None:
    """Only the schema file's content changes. Buffered records are read by the former schema."""
    schema = "schema: {registry: 'http://r:8081', subjects: [s], reader: r.avsc}"
    mapped = MAPPED.replace("{fields", f"{{format: avro, {schema}, fields")
    topology = parse(file(mapped))
    texts = [f'{{"type":"record","name":"{name}","fields":[]}}' for name in ("A", "B")]
    was, now = (read_by(topology, text) for text in texts)
    old, new = (contract_of(each, stage) for each in (was, now))
    (found,) = find_differences(old, new, now, facts)
    assert (found.path, found.verdict) == ("streams.default.value_schema", verdict)
    assert found.was != found.now
    assert len(found.was) < 150
    kept = change.with_former_reading(now, old.streams).streams["default"]
    assert kept.value_schema == was.streams["default"].value_schema
    assert kept.mapping() == was.streams["default"].mapping()


def read_by(topology: Topology, reader: str) -> Topology:
    stream = topology.streams["default"].with_reader(reader)
    return topology.model_copy(update={"streams": {"default": stream}})


def test_law_differences_have_one_verdict() -> None:
    """Each difference has one verdict, and equal files have none.

    State at the brokers changes no verdict if all streams stay and are read alike.
    """
    texts = list(dict.fromkeys(text for was, now, *_ in ROWS.values() for text in (was, now)))
    for stage in (FIRST, LOOKS, ALL):
        for text in texts:
            assert compared(text, text, stage) == []
        for was, now in permutations(texts, 2):
            found = compared(was, now, stage)
            paths = [each.path for each in found]
            assert len(paths) == len(set(paths))
            old, new = (
                contract(each.replace(CUT, "") if stage == ALL else each, stage)
                for each in (was, now)
            )
            assert bool(found) == (
                old._replace(inputs=[], lanes=[]) != new._replace(inputs=[], lanes=[])
            )
            if old.streams.keys() <= new.streams.keys() and change.have_same_reading(old, new):
                assert compared(was, now, stage, Facts({"default", "second"}, unread=True)) == found


def test_refusals_advise_new_outputs() -> None:
    """Another application that writes to the same outputs would count everything twice."""
    for was, now, stage, facts, _ in ROWS.values():
        said = change.format_refusals(compared(was, now, stage, facts))
        if "application" in said and "begin anew" in said:
            assert "streams." in said
            assert "output: " in said


# -- state that no stage continues -----------------------------------------------------------------

ONE = f"streams: {{default: {{}}}}\n{ONE_PART}\n"
SPLIT = f"{ONE}stages: [reorder, merge, window]\n"
ALL_SPLIT = "stages: [reorder, merge, window, pattern, join]"
ALL_FUSED = "stages: [reorder+merge, window, pattern, join]"


def abandoned_state(text: str, stage: str, topic: str, *, lost: str = "") -> Difference:
    """Return the verdict on a stage's state that the file no longer continues."""
    return change.refuse_abandoned(stage, topic, lost, parse(text))


@pytest.mark.parametrize(
    ("text", "stage", "topic", "remedy"),
    [
        (ONE, "reorder", "events.raw", ALL_SPLIT),
        (ONE, "merge", "events.sequenced", ALL_SPLIT),
        (ONE, "reorder+merge", "events.raw", ALL_FUSED),
        (SPLIT, "reorder+merge", "events.raw", ALL_FUSED),
        (SPLIT, "all", "events.raw", "remove `stages` from the file"),
    ],
)
def test_other_split_is_refused(text: str, stage: str, topic: str, remedy: str) -> None:
    """Each refusal proposes a split that has the stage whose state exists."""
    found = abandoned_state(text, stage, topic)
    assert found.verdict == REFUSED
    assert remedy in found.remedy
    without = "".join(
        line for line in text.splitlines(keepends=True) if not line.startswith("stages")
    )
    again = parse(without + remedy if remedy.startswith("stages") else without)
    assert stage in [each.name for each in again.stages]
    assert "new names for what it writes" in found.remedy
    # Results of moved queries have the same ids, and would begin with revision 0 again.
    joined = file(stages="stages: [reorder+merge, window+pattern]\n")
    assert abandoned_state(joined, "window", "events.ordered").verdict == REFUSED
    assert abandoned_state(ONE, "window", "events.ordered").verdict == ENDS


def test_removed_input_must_be_drained() -> None:
    now = "streams: {default: {input: other}}\n"
    assert abandoned_state(now, ALL, "events.raw").verdict == ENDS
    for lost in ("buffered events", "unread records"):
        found = abandoned_state(now, ALL, "events.raw", lost=lost)
        assert lost in found.effect
        assert (found.verdict, found.path) == (REFUSED, "input events.raw")
        assert "put it back" in found.remedy


def test_removed_input_must_not_return() -> None:
    found = change.refuse_return("reorder+merge", "other", "events.raw", parse(ONE))
    assert (found.verdict, found.path) == (REFUSED, "input events.raw")
    assert "put other back" in found.remedy
    assert "new names for what it writes" in found.remedy


def test_taken_outputs_are_refused() -> None:
    found = change.refuse_taken("reorder+merge", ["events.ordered"], parse(ONE))
    assert found.verdict == REFUSED
    assert "streams.default.output: events.ordered-2" in found.remedy
    assert "--take-over now" in found.remedy


# -- upstream partitions ---------------------------------------------------------------------------


@pytest.mark.parametrize("added", ["a", "m", "z"])
def test_new_input_is_numbered_last(added: str) -> None:
    before = change.extend_table([], {"k": 2, "p": 3})
    assert before == [("k", 0, 2), ("p", 0, 3)]
    after = change.extend_table(before, {"k": 2, "p": 3, added: 2})
    assert after[:2] == before
    assert after[2:] == [(added, 0, 2)]
    assert change.extend_table(after, {"k": 4, "p": 3, added: 2})[3:] == [("k", 2, 2)]
    assert change.extend_table(after, {"k": 2}) == after


def test_grown_input_keeps_numbers() -> None:
    before = change.extend_table([], {"k": 2, "p": 3})
    assert change.extend_table(before, {"k": 2, "p": 5}) == [("k", 0, 2), ("p", 0, 5)]
    for grown in ({"k": 2, "p": 5}, {"k": 4, "p": 3}, {"a": 1, "k": 4, "p": 5}):
        after = change.partitions_in_table(change.extend_table(before, grown))
        assert after[:5] == change.partitions_in_table(before)
        assert sorted(after) == [(topic, n) for topic in sorted(grown) for n in range(grown[topic])]


def test_other_layout_is_refused() -> None:
    now = contract(BASE, FIRST)
    was = now._replace(shapes={**now.shapes, "clock": now.shapes["clock"] + 1})
    (found,) = find_differences(was, now, parse(BASE))
    assert (found.path, found.verdict) == ("state of clock", REFUSED)
    assert "go on with the version that wrote it" in found.remedy


# -- the page ------------------------------------------------------------------------------------

PAGE = ROOT / "docs/operate/change.md"


def test_page_lists_the_verdicts() -> None:
    lines = PAGE.read_text().split("## Look up a change")[1].splitlines()
    rows = [line.split("|")[1:3] for line in lines if line.startswith("| ")][2:]
    named = {re.sub(r" \(.*\)$", "", name.strip()): verdict.strip() for name, verdict in rows}
    words = {None: "nothing to do", BEGINS: "begins", ENDS: "ends", REFUSED: "refused"}
    shown = {name: says for name, (*_, says) in ROWS.items() if name in named}
    assert len(shown) == 19
    for name, says in shown.items():
        assert named[name].startswith(words[says[0][1] if says else None]), name
