"""Examples: reports of queries that need a type or field that no event has."""

from __future__ import annotations

import pytest

from topology.base.event import HEARTBEAT, Event
from topology.config import parse
from topology.stage.unmet import MANY, NAME_CHARS, SHOWN, make_unmet_check


def event(kind: str, payload: object, stream: str = "default") -> Event:
    return Event(stream, "s", 0, 0, 0, 0, value=payload, type=kind)


EVENTS = [
    event("Door", {"machine": "m1", "open": 1}),
    event("Reading", b'{"machine": "m1", "v": 3, "pos": {"x": 1}}'),
    event("Reading", None),
]


def words(query: str, events: list[Event] = EVENTS, each_batch: int | None = None) -> list[str]:
    topology = parse(f"streams: {{default: {{}}}}\nqueries:\n  q: {query}\n")
    unmet = make_unmet_check(topology, each_batch=each_batch)
    unmet.observe(events)
    return unmet.words("q")


def like(pattern: str) -> str:
    return f'{{pattern: "PATTERN {pattern} WITHIN 5 s"}}'


TYPES = "types seen: Door, Reading"
FIELDS = "fields seen: machine, open, pos, v"
NEAR = {"vv": "did you mean `v`? ", "machin": "did you mean `machine`? "}


JOIN = "join: interval 2s, sides: {a: {type: Door}, b: {type: R}}, values: {o: a.payload.o}"
LACKS = [
    (like("SEQ(Dor d, Reading r)"), ["type `Dor`"]),
    (like("SEQ(Door d, Reading r) WHERE r.vv > 3"), ["type Reading has the field `vv`"]),
    (like("SEQ(Door d, Reading r) WHERE d.v > 3 AND r.ts > 1"), ["type Door has the field `v`"]),
    (
        like("SEQ(Door d, Reading r) WHERE [machin]"),
        ["type Door has the field `machin`", "type Reading has the field `machin`"],
    ),
    (like("SEQ(A|Door d, !No, Reading r) WHERE r.pos.x > 0"), []),
    (like("SEQ(_ d, Reading? r)"), []),
    ("{window: tumbling 10s, aggregate: {n: count(), x: avg(payload.pos.x)}}", []),
    (f"{{{JOIN}}}", ["type `R`", "type Door has the field `o`"]),
]


@pytest.mark.parametrize(("query", "lacks"), LACKS)
def test_missing_name_is_reported(query: str, lacks: list[str]) -> None:
    said = [f"no event of {each}; {_seen(each)}" for each in lacks]
    assert words(query) == said


def _seen(lack: str) -> str:
    if "field" not in lack:
        return TYPES
    return NEAR.get(lack.split("`")[1], "") + FIELDS


def test_field_that_no_type_has_is_reported() -> None:
    query = "{window: tumbling 10s, key: payload.machine, aggregate: {m: avg(payload.vv)}}"
    assert words(query) == [f"no event has the field `vv`; {NEAR['vv']}{FIELDS}"]


PATTERN = like("SEQ(Dor d, Reading r) WHERE r.vv > 1")


def test_silent_stream_is_named() -> None:
    nothing = ["no event in stream `default`"]
    assert words(PATTERN, []) == nothing
    beat = Event("default", "s", 0, 0, 0, 0, kind=HEARTBEAT)
    assert words(PATTERN, [beat, event("x", {}, "strange")]) == nothing


def test_sampled_events_are_counted() -> None:
    said = words(PATTERN, [EVENTS[1]] * 9, each_batch=4)
    missing = "none of 4 of type Reading has the field `vv`; did you mean `v`?"
    assert said[1] == f"{missing} fields seen: machine, pos, v"


def test_later_batches_sample_one_event() -> None:
    """Searching for a missing field becomes cheap, and a field that comes later is found."""
    topology = parse(f"streams: {{default: {{}}}}\nqueries:\n  q: {PATTERN}\n")
    unmet = make_unmet_check(topology, each_batch=50)
    for _ in range(MANY // 50 + 3):
        unmet.observe([EVENTS[1]] * 60)
    assert f"none of {MANY + 3:,} of type Reading" in unmet.words("q")[1]
    unmet.observe([event("Reading", {"vv": 2}), *[EVENTS[1]] * 60])
    assert unmet.words("q") == [f"no event of type `Dor`; {TYPES.replace('Door, ', '')}"]


def test_shown_names_are_bounded() -> None:
    many = [event(f"T{number}", {f"f{number}": 1}) for number in range(1_000)]
    (said,) = words(like("SEQ(Dor d, _ r)"), many)
    assert said.count(",") == SHOWN - 1


def test_long_names_are_cut() -> None:
    """Senders choose the names, so the kept and shown names have a bound."""
    hostile = [event("T" * 100_000, dict.fromkeys(["f" * 100_000, *map(str, range(5_000))], 1))]
    typed, fielded = words(like("SEQ(Dor d, _ r) WHERE r.vv > 1"), hostile)
    assert f"types seen: {'T' * NAME_CHARS}…" in typed
    assert fielded.count(",") == SHOWN - 1
    assert len(typed) + len(fielded) < 1_000


def test_stream_is_named_if_several() -> None:
    topology = parse(
        "streams: {a: {}, b: {}}\n"
        'queries: {q: {stream: a, pattern: "PATTERN SEQ(Door d, Door e) WITHIN 5 s"}}\n'
    )
    unmet = make_unmet_check(topology)
    unmet.observe([event("Door", {}, "b"), event("Dor", {}, "a")])
    assert unmet.words("q") == ["no event of type `Door` in stream a; types seen: Dor"]
    assert unmet.words("strange") == []
