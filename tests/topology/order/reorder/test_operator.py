"""Examples for REORDER as tables, and the law that REORDER matches its oracle on seeded streams.

In the tables, times are in milliseconds; `max_wait` is 50.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.kit.scenarios import Table, scenarios, table
from tests.laws.streams import raw
from tests.seeds import seeds_of_today
from tests.topology.order.reorder.against_oracle import MS, RULES, arrivals, by_operator, by_oracle
from tests.topology.order.reorder.oracle import AUTO
from topology.base.event import BLOCKED, BYE, DEAD, HEARTBEAT, NO_EPOCH, UNBLOCKED, Event
from topology.base.late import GAP
from topology.base.outcome import Duplicate, Gap, Late, Malformed, Step
from topology.config import ReorderConfig
from topology.order.reorder.operator import Reorder

SEEDS = seeds_of_today(40)


def operator(**settings: Any) -> Reorder:
    return Reorder("default", ReorderConfig(**{"max_wait": "50ms", "start": "zero", **settings}))


def event(
    at: int,
    seq: int,
    ts: int | None = None,
    source: str = "s",
    epoch: int = NO_EPOCH,
    kind: str = "",
) -> Event:
    """Return an event; without `ts`, the record has no timestamp and its arrival time is used."""
    stamp = at if ts is None else ts
    made = Event("default", source, epoch, seq, stamp * MS, at * MS, offset=seq, kind=kind)
    made.is_stamped = ts is not None
    return made


def rendered(step: Step) -> list[str]:
    """Return the lines of one call, such as `5 (late gap)`, `blocked` or `gap 3-4 timeout`."""
    lines = []
    for e in step.released:
        number = e.kind if e.kind in (BLOCKED, UNBLOCKED) else f"{e.seq}"
        number += " (dead)" if e.kind == DEAD else ""
        lines.append(f"{number} (late {e.late})" if e.late else number)
    for report in step.reports:
        if isinstance(report, Gap):
            lines.append(f"gap {report.first}-{report.last} {report.reason}")
        elif isinstance(report, Late):
            lines.append(f"late {report.event.seq} {report.reason}")
        elif isinstance(report, Duplicate):
            lines.append(f"{'conflict' if report.conflict else 'duplicate'} {report.event.seq}")
        else:
            lines.append(f"dead {report.seq} {report.reason}")
    return lines


def play(reorder: Reorder, rows: Table) -> None:
    """Play the rows (at, seq and perhaps ts and epoch); one without seq calls `on_time`."""
    for number, (at, seq, *rest, expected) in enumerate(rows):
        if seq is None:
            step = reorder.on_time(at * MS)
        else:
            ts = rest[0] if rest else None
            epoch = rest[1] if len(rest) > 1 else NO_EPOCH
            step = reorder.on_batch([event(at, seq, ts, epoch=epoch)], at * MS)
        assert rendered(step) == expected, f"line {number}: at {at} number {seq}"


SCENARIOS = scenarios("""
What frees an overdue gap expires it {start: auto, rule: fixed}
# In a start hold the lower gap is known later, so its deadline is later.
    0 5 -> blocked
    10 9  # 6-8 until 60
    40 2  # 3-4 until 90
    50 -> 2, blocked
    70 3 -> 3, blocked
    70 4 -> 4, 5, blocked, 9, gap 6-8 timeout
    70 7 1 -> 7 (late gap)
A late event is dropped {late: drop}
    0 0 -> 0
    1 2 -> blocked
    51 -> 2, gap 1-1 timeout
    60 1 1 -> late 1 gap
A late event is put aside {late: side}
    0 0 -> 0
    1 2 -> blocked
    51 -> 2, gap 1-1 timeout
    60 1 1 -> late 1 gap
Only the last epoch that is over is remembered
    1 0 1 1 -> 0
    2 0 2 2 -> blocked, 0
    3 0 3 3 -> blocked, 0
    4 0 2 2 -> duplicate 0
    5 0 1 1 -> late 0 old_epoch
A number beyond its bits is dead {seq_bits: 8}
    20 256 -> dead 256 seq_range
The number that a counter skips is dead {seq_range: 1 to 255, start: auto}
    20 0 -> dead 0 seq_range
    21 256 -> dead 256 seq_range
The first number of a range opens at once {seq_range: 1 to 255, start: auto}
    0 1 -> 1
    1 2 -> 2
A counter that skips 0 has no gap at its wrap {seq_range: 1 to 255, start: 254}
    0 254 -> 254
    1 255 -> 255
    2 1 -> 256
    3 2 -> 257
A loss at the wrap is a gap {seq_range: 0 to 9999, start: 9998}
    0 9998 -> 9998
    1 1 -> blocked
    51 -> 10001, gap 9999-10000 timeout
No restart is inferred where it may not be {infer_restart: false}
    0 0 -> 0
    1 1 -> 1
    2 2 -> 2
    53 0 53 -> duplicate 0
Without a stamp what comes soon may be a copy
    0 0 -> 0
    1 1 -> 1
    2 2 -> 2
    52 0 -> duplicate 0
Without a stamp what comes later is a restart
    0 0 -> 0
    1 1 -> 1
    2 2 -> 2
    53 0 -> blocked
    103 -> 0
A refused number does not shut out the source {seq_bits: 8, start: auto}
    0 300 0 0 -> dead 300 seq_range
    1 0 1 4 -> 0
A second number near it confirms the jump {max_jump: 100}
    0 0 -> 0
    1 5000
    2 5002 -> blocked
    2 -> 5000, blocked, gap 1-4999 jump
    3 5001 -> 5001, 5002
    4 17 0 -> 17 (late gap)
A source that floods gives up its oldest hole {max_held: 2}
    0 1 -> blocked
    1 3
    2 5 -> 1, blocked, gap 0-0 overflow
    3 0 -> 0 (late gap)
What the ledger forgot may be a copy {gap_ranges: 1}
# One range is remembered: 1 is below the floor, 3 is not.
    0 0 -> 0
    1 2 -> blocked
    51 -> 2, gap 1-1 timeout
    60 4 -> blocked
    110 -> 4, gap 3-3 timeout
    111 1 1 -> late 1 beyond_memory
    112 3 60 -> 3 (late gap)
""")


@pytest.mark.parametrize(("settings", "rows"), SCENARIOS.values(), ids=SCENARIOS)
def test_scenario_matches_table(settings: dict[str, Any], rows: Table) -> None:
    play(operator(**settings), rows)


def test_filling_event_expires_overdue_gap() -> None:
    """Both happen within one batch."""
    reorder = operator(start="auto", rule="fixed")
    play(reorder, table("0 5 -> blocked\n10 9\n40 2\n50 -> 2, blocked\n70 3 -> 3, blocked"))
    step = reorder.on_batch([event(70, 4), event(70, 7, ts=1)], 70 * MS)
    assert rendered(step) == ["4", "5", "blocked", "9", "7 (late gap)", "gap 6-8 timeout"]


def test_changed_duplicate_is_a_conflict() -> None:
    reorder = operator()
    play(reorder, [(0, 0, ["0"]), (1, 0, 0, ["duplicate 0"]), (2, 2, 7, ["blocked"])])
    play(reorder, [(3, 2, 7, ["duplicate 2"]), (4, 2, 6, []), (5, 3, 8, ["late 2 conflict"])])
    other = event(6, 3, 8)
    other.value = b"other"
    assert rendered(reorder.on_batch([other], 6 * MS)) == ["conflict 3"]


# -- epochs ----------------------------------------------------------------------------------------


def _sent(rng: Random, runs: int) -> list[tuple[int, int, int]]:
    """Return (run, number, timestamp) of a source that restarts at 0 without a pause."""
    sent, ts = [], 0
    for run in range(runs):
        for seq in range(rng.randint(5, 30)):
            ts += rng.choice((1, 1, 2, 9))
            sent.append((run, seq, ts))
    return sent


@pytest.mark.parametrize("is_stamped", [True, False])
@pytest.mark.parametrize("start", ["auto", "zero"])
def test_network_duplicates_are_recognised(start: str, *, is_stamped: bool) -> None:
    for seed in SEEDS:
        rng = Random(seed)
        sent = _sent(rng, 1)
        delayed = [(ts + rng.randint(0, 40), seq, ts) for _, seq, ts in sent * 2]
        step = Step(0)
        reorder = operator(start=start)
        for at, seq, ts in sorted(delayed):
            doubled = event(at, seq, ts if is_stamped else None)
            step.add(reorder.on_batch([doubled], at * MS))
        step.add(reorder.on_end(1_000 * MS))
        words = rendered(step)
        assert not [word for word in words if "gap" in word or "late" in word], seed
        assert sum("duplicate" in word or "conflict" in word for word in words) == len(sent), seed
        assert {e.epoch for e in step.released} == {0}, seed
        if not is_stamped:
            assert not any("conflict" in word for word in words), seed


@pytest.mark.parametrize(("first", "start"), [(0, "zero"), (0, "auto"), (700, "auto")])
def test_immediate_restart_loses_nothing(first: int, start: str) -> None:
    for seed in SEEDS:
        sent = _sent(Random(seed), 4)
        reorder = operator(start=start)
        step = Step(0)
        for run, seq, ts in sent:
            made = event(ts + 5, seq + (0 if run else first), ts)
            step.add(reorder.on_batch([made], made.at_ns))
        step.add(reorder.on_end(9_000 * MS))
        assert not step.reports, (seed, rendered(step))
        left = [e.ts_ns // MS for e in step.released if e.kind == ""]
        assert left == [ts for _, _, ts in sent], seed
        assert {e.epoch for e in step.released if e.kind == ""} == {0, 1, 2, 3}, seed


# -- numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "rows"),
    [
        # A number from before the start, below the wrap, is late and reported as it was sent.
        ("auto", [(0, 0, ["0"]), (1, 254, ["late 254 before_start"]), (2, 1, ["1"])]),
        ("zero", [(0, 254, ["late 254 before_start"]), (1, 0, ["0"]), (2, 1, ["1"])]),
        # At most half a cycle ahead can be distinguished from behind.
        ("zero", [(0, 128, ["blocked"]), (50, None, ["128", "gap 0-127 timeout"])]),
        ("zero", [(0, 129, ["late 129 before_start"])]),
        # In the start hold, 255 is the smallest number, so the others count one cycle up.
        ("auto", [(0, 2, ["blocked"]), (1, 255, []), (2, 1, []), (3, 0, []), (49, None, []),
                  (50, None, ["255", "256", "257", "258"]), (51, 3, ["259"])]),
        ("auto", [(0, 2, ["blocked"]), (1, 254, []), (2, 3, []), (49, None, []),
                  (50, None, ["254", "blocked"]),
                  (51, None, ["258", "259", "gap 255-257 timeout"]),
                  (52, 0, ["256 (late gap)"]), (53, 253, 0, ["late 253 before_start"])]),
        # The timestamp of 254 is too new for that, so the source has restarted.
        ("auto", [(0, 0, ["0"]), (9, 1, ["1"]), (60, 254, ["blocked"]), (110, None, ["254"])]),
    ],
)  # fmt: skip
def test_number_before_start_is_late(start: str, rows: Table) -> None:
    play(operator(seq_bits=8, start=start), rows)


def test_single_jump_is_dead() -> None:
    rows = table("""
        0 0 -> 0
        1 5000
        2 1 -> 1
        51 -> dead 5000 seq_jump
        52 2 -> 2
    """)
    play(operator(max_jump=100), rows)


def test_dead_letter_holds_its_place() -> None:
    reorder = operator()
    events = [event(0, 0), event(1, 2), event(2, 1, kind=DEAD)]
    assert rendered(reorder.on_batch(events, 2 * MS)) == ["0", "blocked", "1 (dead)", "2"]


def test_control_events_are_never_late() -> None:
    """Control events take their sequence number."""
    reorder = operator()
    events = [event(0, 0), event(1, 1, kind=HEARTBEAT), event(2, 2, kind=BYE)]
    assert rendered(reorder.on_batch(events, 2 * MS)) == ["0", "1", "2"]
    assert rendered(reorder.on_batch([event(3, 1, kind=HEARTBEAT)], 3 * MS)) == []


# -- bounds ----------------------------------------------------------------------------------------


def test_total_bound_hits_fullest_source() -> None:
    reorder = operator(max_held_total=3)
    events = [
        event(at, seq, source=s) for at, (s, seq) in enumerate([("a", 1), ("b", 1), ("b", 2)])
    ]
    reorder.on_batch(events, 2 * MS)
    step = reorder.on_batch([event(3, 9, source="a")], 3 * MS)
    assert [(r.source, r.last) for r in step.reports if isinstance(r, Gap)] == [("a", 0)]
    step = reorder.on_batch([event(4, 3, source="b")], 4 * MS)
    assert [(r.source, r.last) for r in step.reports if isinstance(r, Gap)] == [("b", 0)]


def test_byte_bound_hits_largest_payload() -> None:
    reorder = operator(max_held_bytes=100)
    events = [event(at, at + 1, source="many") for at in range(3)]
    events += [event(3, 1, source="heavy"), event(4, 4, source="many")]
    for each in events:
        each.value = b"x" * (90 if each.source == "heavy" else 4)
    step = reorder.on_batch(events, 4 * MS)
    assert [r.source for r in step.reports if isinstance(r, Gap)] == ["heavy"]


def test_all_silent_sources_are_forgotten() -> None:
    reorder = operator(forget_after="1s")
    for at, source in ((0, "a"), (1, "b"), (900, "c"), (1_500, "d")):
        reorder.on_batch([event(at, 0, source=source)], at * MS)
    assert (reorder.figures()["forgotten"], reorder.figures()["sources"]) == (2, 2)


def test_dead_letter_report_has_a_remedy() -> None:
    reorder = operator(max_jump=10)
    reorder.on_batch([event(0, 0), event(1, 1_000)], 1 * MS)
    dead = reorder.on_end(60 * MS).reports[0]
    assert isinstance(dead, Malformed)
    assert "raise reorder.max_jump" in dead.detail


# -- figures ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_figures_add_up_waits_and_gaps(seed: int) -> None:
    """`waited_ns` is the sum over all emitted and reported events."""
    reorder = operator(rule="miss", start="auto")
    waited_ns = outlived = 0
    newest: dict[str, int] = {}
    for one in raw(seed):
        step = reorder.on_batch([one], one.at_ns)
        for report in step.reports:
            if isinstance(report, Late | Duplicate):
                waited_ns += report.at_ns - report.event.arrival_ns
        for left in step.released:
            if left.kind not in (BLOCKED, UNBLOCKED):
                waited_ns += left.at_ns - left.arrival_ns
            newest[left.source] = max(newest.get(left.source, 0), left.epoch)
            # The end of a run is also late by its gap, but no number was given up.
            outlived += left.late == GAP and left.epoch == newest[left.source]
    figures = reorder.figures()
    assert figures["waited_ns"] == waited_ns
    assert figures["filled_late"] >= outlived
    assert figures["target_ppm"] == 999_000


def test_filled_gaps_are_counted() -> None:
    reorder = operator(rule="fixed")
    reorder.on_batch([event(0, 0), event(1, 2), event(3, 1)], 3 * MS)
    reorder.on_batch([event(10, 5), event(90, 4, 9), event(91, 3, 8)], 91 * MS)
    figures = reorder.figures()
    assert (figures["filled"], figures["filled_late"]) == (1, 2)
    assert figures["waited_ns"] == (2 + 50) * MS
    assert "target_ppm" not in figures


# -- the oracle ------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [AUTO, 0, 3])
@pytest.mark.parametrize("rule", RULES)
def test_operator_matches_oracle(rule: str, start: int) -> None:
    for seed in SEEDS:
        rng = Random(seed)
        coming = arrivals(rng, rng.choice((10, 30, 70, 200)), rng.choice((1, 2, 3)))
        last_ns = coming[-1].at_ns
        ends: list[dict[str, int]] = [
            {},
            {"until_ns": last_ns + rng.choice((0, 10, 60, 200)) * MS},
            {"end_ns": last_ns + rng.choice((0, 10)) * MS},
        ]
        told_of = rng.choice(ends)
        expected = by_oracle(coming, rule, start, **told_of)
        for got, wanted in zip(by_operator(coming, rule, start, **told_of), expected, strict=True):
            assert got == wanted, f"seed {seed}"
