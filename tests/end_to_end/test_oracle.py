"""Example table: the oracle of the end-to-end tests finds each fault, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from tests.end_to_end.oracle import Evidence, checked
from tests.end_to_end.records import Read, contract


def event(offset: int, source: str, seq: int, ref_ns: int, late: str = "") -> Read:
    headers = [*contract(source, seq, ref_ns), ("refTs", b"%d" % ref_ns)]
    if late:
        headers.append(("late", late.encode()))
    return Read(0, offset, 0, source.encode(), b"%s %d" % (source.encode(), seq), headers)


def watermark(offset: int, w_ns: int, c_ns: int) -> Read:
    headers = [("kind", b"watermark"), ("refTs", b"%d" % w_ns), ("complete", b"%d" % c_ns)]
    return Read(0, offset, 0, None, None, [(name, bytes(value)) for name, value in headers])


def gap(source: str, first: int, last: int) -> Read:
    value = orjson.dumps({"source": source, "epoch": 0, "first": first, "last": last})
    return Read(0, 0, 0, None, value, [])


def letter(source: str | None, seq: int | None) -> Read:
    return Read(0, 0, 0, None, orjson.dumps({"source": source, "epoch": 0, "seq": seq}), [])


def sound() -> Evidence:
    """Return sound evidence.

    a: 0 1 1 3, where 2 is lost. b: 0, late 1, dead 2. One dead letter has no source.
    """
    raw = [event(n, "a", seq, 10 * seq) for n, seq in enumerate((0, 1, 1, 3))]
    raw += [event(4 + seq, "b", seq, 10 * seq + 5) for seq in range(3)]
    raw.append(Read(0, 7, 0, None, b"nobody", []))
    ordered = [
        event(0, "a", 0, 0),
        event(1, "b", 0, 5),
        event(2, "a", 1, 10),
        watermark(3, 25, 10),
        event(4, "b", 1, 15, late="merge_wait"),
        event(5, "a", 3, 30),
    ]
    return Evidence(raw, ordered, [], [letter("b", 2), letter(None, None)], [gap("a", 2, 2)])


def test_sound_log_has_no_faults() -> None:
    """Repeated events are not a fault if they are allowed."""
    verdict = checked(sound())
    assert verdict.faults == []
    assert (verdict.raw, verdict.unmarked, verdict.dead, verdict.duplicates) == (8, 4, 2, 1)
    assert verdict.late == {"merge_wait": 1}
    evidence = sound()
    evidence.ordered.extend(evidence.ordered[:3])
    verdict = checked(evidence, repeats=True)
    assert (verdict.faults, verdict.repeated) == ([], 3)


def replace(evidence: Evidence, place: int, **fields: Any) -> None:
    record = evidence.ordered[place]
    evidence.ordered[place] = record._replace(**fields)


def swap_numbers(evidence: Evidence) -> None:
    """Swap two numbers of `a`, although its corrected timestamps rise."""
    evidence.ordered[0] = event(0, "a", 1, 0)
    evidence.ordered[2] = event(2, "a", 0, 10)


Tamper = Callable[[Evidence], object]

TAMPERED: list[tuple[str, Tamper, str]] = [
    ("an event is missing", lambda e: e.ordered.pop(0), "did not come out"),
    ("an event comes twice", lambda e: e.ordered.append(event(6, "a", 3, 30)), "more than once"),
    ("a late one comes twice", lambda e: e.ordered.append(e.ordered[4]), "more than once"),
    ("nobody sent it", lambda e: e.ordered.append(event(6, "c", 0, 40)), "never sent"),
    ("two change places", lambda e: e.ordered.insert(0, e.ordered.pop(1)), "after"),
    ("a source is out of sequence", swap_numbers, "of its source"),
    ("its value is another", lambda e: replace(e, 5, value=b"x"), "key or value"),
    ("its key is another", lambda e: replace(e, 5, key=b"x"), "key or value"),
    ("below the watermark", lambda e: replace(e, 3, headers=watermark(3, 31, 10).headers), "below"),
    ("C above W", lambda e: replace(e, 3, headers=watermark(3, 25, 26).headers), "is above W"),
    ("W falls", lambda e: e.ordered.append(watermark(6, 24, 10)), "W or C fell"),
    ("C falls", lambda e: e.ordered.append(watermark(6, 26, 9)), "W or C fell"),
    ("a gap is not told", lambda e: e.gaps.pop(), "in no gap"),
    ("a gap is told twice", lambda e: e.gaps.append(gap("a", 1, 2)), "declared missing twice"),
    ("a letter too many", lambda e: e.dead.append(letter(None, None)), "balance is off"),
    ("the letter of nobody is lost", lambda e: e.dead.pop(), "balance is off"),
]


@pytest.mark.parametrize(("what", "tamper", "told"), TAMPERED)
def test_each_fault_is_found(what: str, tamper: Tamper, told: str) -> None:
    evidence = sound()
    tamper(evidence)
    assert any(told in fault for fault in checked(evidence).faults), what
