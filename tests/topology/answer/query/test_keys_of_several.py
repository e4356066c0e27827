"""Law: a key of several values divides events like one value that combines them, in every query."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from inorder.engine import Detector, RawEvent, parse, replay
from inorder.testing import JoinRecord, MatchRecord, WindowRecord
from topology.answer.query.fields import KeyTexts
from topology.answer.query.numbers import scalar_of

VALUES = ("a", "a|b", "b|c", "c", "1:a", "", "\x00", 1, 1.0, "1", True, 2.5, -(2**70), "é")
MISSING: tuple[Any, ...] = (None, [], {}, float("nan"), 1e30)

STREAMS = "streams: {default: {clock: {unsynced: trust}, reorder: {rule: fixed, max_wait: 1s}}}"
QUERIES = {
    "window": "window: tumbling 1s, aggregate: {n: count(), s: sum(payload.n)}",
    "sessions": "window: session 300ms, aggregate: {n: count()}",
    "join": "join: interval 200ms, sides: {x: {type: A}, y: {type: B}}, outer: full",
    "detector": "detector: third",
}


def events(rng: Random, n: int = 200) -> list[RawEvent]:
    """Return events whose field `both` combines `a` and `b`, if both are keys."""
    found = []
    for seq in range(n):
        payload = {name: rng.choice(VALUES * 3 + MISSING) for name in "ab"}
        texts = [KeyTexts().text(value) for value in payload.values()]
        ts_ns = 10**18 + seq * 20_000_000
        late_ns = rng.randrange(1_500_000_000) if rng.random() < 0.1 else 0
        found.append(
            RawEvent(
                source="s",
                seq=seq,
                ts_ns=ts_ns,
                arrival_ns=ts_ns + late_ns,
                type=rng.choice("AB"),
                payload={**payload, "n": seq, "both": None if None in texts else repr(texts)},
            )
        )
    return sorted(found, key=lambda each: each.arrival_ns or 0)


def found_by(query: str, key: str, inputs: list[RawEvent]) -> list[Any]:
    def step(state: int, event: Any) -> tuple[int, list[Any]]:
        return state + 1, [{"n": event.payload["n"]}] if state % 3 == 2 else []

    text = f"{STREAMS}\nqueries: {{q: {{{query}, key: {key}}}}}"
    topology = parse(text, {}, {}, {"third": Detector(step, 0)})
    records = replay(topology, inputs)
    return [each for each in records if isinstance(each, WindowRecord | JoinRecord | MatchRecord)]


@pytest.mark.parametrize("kind", QUERIES)
def test_list_divides_like_combined_value(kind: str) -> None:
    inputs = events(Random(kind))
    several = found_by(QUERIES[kind], "[payload.a, payload.b]", inputs)
    one = found_by(QUERIES[kind], "payload.both", inputs)
    assert several
    keys: dict[str, Any] = {}
    ids: dict[str, str] = {}

    def shown(record: Any) -> Any:
        return (record.op, record.revision, record.start_ns, record.end_ns, record.values)

    assert sorted(map(repr, map(shown, several))) == sorted(map(repr, map(shown, one)))
    for record in several:
        assert isinstance(record.key, list)
        assert len(record.key) == 2
        assert ids.setdefault(record.id, repr(record.key)) == repr(record.key)
        keys[repr(record.key)] = record.key
    assert len(keys) == len({record.key for record in one})


def test_texts_of_lists_are_unambiguous() -> None:
    texts: dict[str, Any] = {}
    paths = (("a",), ("b",), ("c",))
    rng = Random(1)
    for _ in range(3_000):
        several = paths[: rng.choice((1, 2, 3))]
        payload = {name: rng.choice(VALUES) for (name,) in several}
        text = KeyTexts().of("s", payload, several)
        assert text is not None
        values = scalar_of(text)
        assert values == [*payload.values()]
        assert repr(texts.setdefault(text, values)) == repr(values)
    single = {KeyTexts().text(value) for value in VALUES}
    assert not texts.keys() & single
    assert KeyTexts().of("s", {"a": 1, "b": None}, paths[:2]) is None
    assert scalar_of(KeyTexts().of("s", {"a": 1}, (("",), ("a",))) or "") == ["s", 1]
