"""Examples: the input of an operator that reads accepted events, and its effect on others."""

from __future__ import annotations

from collections.abc import Sequence

from tests.kit.events import event, watermark
from tests.laws.streams_between import merge_of
from topology.base.event import PASSED, REJECTED, WATERMARK, Event
from topology.base.operator import Operator
from topology.base.outcome import Duplicate, Late, Step
from topology.stage.accepted import Accepted
from topology.stage.ledger import Ledger
from topology.stage.node import BATCH, END, Node

MS = 1_000_000
Shown = tuple[str, int, int, str]


class Noting(Operator):
    """An operator that notes kind, instant, time (in ms) and lateness of its input."""

    def __init__(self) -> None:
        self.given: list[Shown] = []

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        self.given += [(e.kind, e.at_ns // MS, e.ref_time_ns // MS, e.late) for e in events]
        step = Step(now_ns, list(events))
        step.kept += events[:1]
        return step


def read(accepted: Accepted, noting: Noting, now: int, ledger: Ledger | None = None) -> Step:
    node = Node("accepted noting", noting, 2, "", ledger or Ledger())
    return node.read(accepted, BATCH, now * MS)


def test_accepted_events_come_with_marks() -> None:
    events = [event(0, 5, 10), event(0, 7, 20, "t"), event(1, 9, 30)]
    accepted, noting = Accepted(events), Noting()
    for one in events[:2]:
        one.at_ns = 30 * MS
    accepted.note(Step(30 * MS, [events[0], events[1], watermark(7, at=30)]))
    ledger = Ledger()
    found = read(accepted, noting, 30, ledger)
    assert noting.given == [
        ("", 10, 5, ""),
        ("", 20, 7, ""),
        ("", 30, 9, ""),
        (PASSED, 30, 7, ""),
        (WATERMARK, 30, 7, ""),
    ]
    assert [one.at_ns // MS for one in events] == [30, 30, 30]
    assert (found.released, list(ledger.iter_kept(2))) == ([], events[:1])


def test_only_rejected_event_gets_a_mark() -> None:
    marked, dropped = event(0, 5, 10), event(1, 6, 10)
    accepted, noting = Accepted([marked, dropped]), Noting()
    marked.late, marked.at_ns, dropped.at_ns = "wait", 20 * MS, 20 * MS
    accepted.note(Step(20 * MS, [marked], [Late(20 * MS, dropped, "merge_full", 1)]))
    read(accepted, noting, 20)
    assert noting.given == [("", 10, 5, ""), ("", 10, 6, ""), (REJECTED, 20, 6, "")]
    assert (marked.late, marked.at_ns) == ("wait", 20 * MS)


def test_dropped_late_event_is_not_accepted() -> None:
    """An event is judged on arrival and reported after its instant, wherever that is cut."""
    late, copy, there = event(0, 5, 10), event(1, 6, 10), event(2, 7, 10)
    before, noting = Accepted([late, there], passes_late=False), Noting()
    late.late = "merge_wait"
    before.note(Step(10 * MS))
    read(before, noting, 10)
    assert noting.given == [("", 10, 7, "")]
    late.late = ""
    at_once, noting = Accepted([late, copy, there], passes_late=False), Noting()
    at_once.note(
        Step(10 * MS, [], [Duplicate(10 * MS, copy), Late(10 * MS, late, "merge_wait", 1)])
    )
    read(at_once, noting, 10)
    assert noting.given == [("", 10, 7, ""), (REJECTED, 10, 5, "")]


def test_mark_has_largest_time_and_error() -> None:
    left = [event(seq, 5 + seq, 20, error=error) for seq, error in enumerate((1, 3, 2))]
    left.append(event(3, 8, 30, error=2))
    accepted = Accepted([])
    accepted.note(Step(30 * MS, left))
    marks = [(e.kind, e.at_ns // MS, e.ref_time_ns // MS, e.error_ns) for e in accepted.events()]
    assert marks == [(PASSED, 20, 7, left[1].error_ns), (PASSED, 30, 8, left[3].error_ns)]


def test_merge_and_reader_hold_separately() -> None:
    """MERGE and an operator that reads accepted events each have their own place."""
    ledger, one = Ledger(), event(0, 6, 6)
    merge = Node("merge", merge_of(), 1, "merge/", ledger)
    accepted = Accepted([one])
    merge.run(BATCH, [one], 6 * MS)
    read(accepted, Noting(), 6, ledger)
    assert ledger.places_of(one) == 3
    assert one in merge.passes(END, 6 * MS).released
    assert ledger.places_of(one) == 2
