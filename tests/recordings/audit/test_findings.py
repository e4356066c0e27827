"""Oracle and examples: each figure in an audit matches its definition, on plants and recorded
traces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product, repeat
from random import Random
from typing import Any

import pytest

from benchmarks.traces import TRACES, TraceRow, read_jr_umts
from benchmarks.workloads.machines import BEGIN_NS, FAST, FAST_BY_NS, MS, RESTARTS, S, plant
from recordings.audit.document import make_document
from recordings.audit.findings import Asked, audit
from recordings.audit.row import ONE_ORDER, AuditRow, OrderRule
from recordings.audit.wraps import Wraps
from tests.end_to_end.recordings import recorded
from tests.recordings.audit.oracle import brute_force, pruned
from tests.seeds import seeds_of_today
from topology.order.reorder.settings import SeqRange

ASKED = Asked(60 * S, (0, 1 * S, 5 * S, 30 * S), ONE_ORDER, arrives=True)


def found(rows: Sequence[AuditRow], asked: Asked = ASKED) -> dict[str, Any]:
    return make_document(audit(rows, asked))


def checked_findings(rows: Sequence[AuditRow], asked: Asked = ASKED) -> dict[str, Any]:
    """Return the findings, after asserting that they match those of brute force."""
    said = found(rows, asked)
    expected = brute_force(rows, asked.length_ns, asked.bounds_ns, apart=asked.order.apart)
    assert pruned(said, expected) == expected
    return said


def counted(seqs: Iterable[int], epochs: Iterable[int | None] = repeat(None)) -> list[AuditRow]:
    """Return the rows of a source that sends these numbers, one per second."""
    return [
        AuditRow("a", seq, epoch, BEGIN_NS + at * S, BEGIN_NS + at * S)
        for at, (seq, epoch) in enumerate(zip(seqs, epochs, strict=False))
    ]


@pytest.mark.parametrize("seed", seeds_of_today(3))
def test_plant_matches_brute_force(seed: int) -> None:
    rows = plant(seed, records=1_200, machines=2 + seed % 5)
    said = checked_findings(rows)
    assert said["windows"]["lateness"]["0"]["wrong"] > 0
    checked_findings(rows, replace(ASKED, length_ns=7 * S, bounds_ns=(0, 300 * MS, 90 * S)))


@pytest.mark.parametrize("seed", seeds_of_today(2))
def test_partitions_are_counted_separately(seed: int) -> None:
    dice = Random(seed)
    rows = [
        row._replace(partition=dice.randrange(3) if row.source == FAST else len(row.source) % 3)
        for row in plant(seed, records=900)
    ]
    checked_findings(rows, replace(ASKED, order=OrderRule((0, 1, 2), apart=True)))


@pytest.mark.parametrize("seed", seeds_of_today(1))
def test_counts_need_numbers(seed: int) -> None:
    rows = [row._replace(seq=None) for row in plant(seed, records=900)]
    said = checked_findings(rows)
    assert said["copies"] is said["missing"] is said["out_of_sequence"] is None


def steady(seed: int, each: int = 800, machines: int = 5) -> list[AuditRow]:
    """Return a plant in which no source restarts."""
    rows = plant(seed, records=each * machines, machines=machines)
    return [row for row in rows if row.source != RESTARTS]


def wrapped(row: AuditRow, bits: int, begin: int = 0) -> AuditRow:
    return row._replace(seq=((row.seq or 0) + begin) % (1 << bits))


OF_NUMBERS = ("copies", "missing", "out_of_sequence", "restarts")


def of_numbers(said: dict[str, Any]) -> dict[str, list[int]]:
    return {
        name: [each[key] for key in OF_NUMBERS] for name, each in sorted(said["by_machine"].items())
    }


@pytest.mark.parametrize("seed", seeds_of_today(3))
@pytest.mark.parametrize(("bits", "begin"), [(8, 0), (8, 250), (16, 65_200), (32, (1 << 32) - 300)])
def test_wrapped_numbers_match_plain_ones(seed: int, bits: int, begin: int) -> None:
    rows = steady(seed)
    expected = found(rows)
    said = found([wrapped(row, bits, begin) for row in rows])
    assert of_numbers(said) == of_numbers(expected)
    assert said["seq_bits"] == bits
    assert expected["seq_bits"] is None
    assert said["windows"] == expected["windows"]
    waits = "wait_ms" if begin else ""  # A source that starts at 0 does not wait.
    assert {**said["inorder"], waits: 0} == {**expected["inorder"], waits: 0}


@pytest.mark.parametrize("seed", seeds_of_today(2))
def test_width_that_fits_all_is_reported(seed: int) -> None:
    few = "robot-0"
    rows = [row for row in steady(seed) if row.source != few or (row.seq or 0) < 200]
    said = found([wrapped(row, 8) for row in rows])
    assert (of_numbers(said), said["seq_bits"]) == (of_numbers(found(rows)), 8)


@pytest.mark.parametrize("seed", seeds_of_today(2))
def test_sources_wrap_by_own_widths(
    seed: int,
) -> None:
    rows = steady(seed)
    mixed = [row if row.source == FAST else wrapped(row, 8) for row in rows]
    said = found(mixed)
    assert (of_numbers(said), said["seq_bits"]) == (of_numbers(found(rows)), None)
    wide = (FAST, "robot-0")
    several = [wrapped(row, 16 if row.source in wide else 8, 65_200) for row in rows]
    said = found(several)
    assert (of_numbers(said), said["seq_bits"]) == (of_numbers(found(rows)), None)


def test_given_range_is_used() -> None:
    rows = counted((250 + at) % 256 for at in range(20))
    assert found(rows)["seq_bits"] is None  # One fall of the numbers is not enough for a guess.
    given = replace(ASKED, wraps=Wraps(SeqRange(0, 255)))
    assert of_numbers(found(rows, given)) == {"a": [0, 0, 0, 0]}
    said = found([*rows, rows[0]._replace(seq=256)], given)
    assert (said["records"], said["unreadable"]) == (21, 1)
    assert said["unread"]["seq_range"]["count"] == 1


@pytest.mark.parametrize("seed", seeds_of_today(2))
@pytest.mark.parametrize(("first", "last"), [(1, 255), (0, 99), (1, 99), (0, 127)])
def test_sequence_range_is_guessed(seed: int, first: int, last: int) -> None:
    dice = Random(seed)
    rows = [row for row in restarting([[400], [300]]) if dice.random() > 0.02]
    cycle = last - first + 1
    said = found([row._replace(seq=first + (row.seq or 0) % cycle) for row in rows])
    assert said["seq_range"] == f"{first} to {last}"
    assert of_numbers(said) == of_numbers(found(rows))


def test_one_wrap_shows_the_range() -> None:
    for last, first in ((65_535, 1), (65_535, 0), (9_999, 0), (16_383, 1)):
        numbers = [*range(last - 50, last + 1), *range(first, 40)]
        said = found(counted(numbers))
        assert (said["seq_range"], said["missing"]) == (f"{first} to {last}", 0)
        of_audit = replace(ASKED, wraps=Wraps(SeqRange(first, last)))
        assert of_numbers(found(counted(numbers), of_audit)) == of_numbers(said)
    without_last = [*range(16_294, 16_383), *range(1, 200)]
    said = found(counted(without_last))
    assert (said["seq_range"], said["seq_bits"], said["missing"]) == ("0 to 16383", 14, 2)
    assert found(counted([*range(9_000, 9_900), *range(100)]))["seq_range"] is None


def test_skipped_number_is_unreadable() -> None:
    rows = counted([254, 255, 1, 2, 0])
    said = found(rows, replace(ASKED, wraps=Wraps(SeqRange(1, 255))))
    assert (said["records"], said["unreadable"], said["missing"]) == (5, 1, 0)


def restarting(lives: Sequence[Sequence[int]]) -> list[AuditRow]:
    """Return sources that count from 0 in each epoch, with a pause of 3 s in between."""
    rows = []
    for number, of_machine in enumerate(lives):
        at_ns = BEGIN_NS + number * MS
        for life in of_machine:
            for seq in range(life):
                at_ns += S
                rows.append(AuditRow(f"m{number}", seq, None, at_ns, at_ns + 20 * MS))
            at_ns += 3 * S
    return sorted(rows, key=lambda row: row.arrival_ns or 0)


DICE = Random(1)


@pytest.mark.parametrize(
    "lives",
    [
        [[DICE.randrange(20, 257) for _ in range(30)] for _ in range(8)],
        [[DICE.randrange(20, 257) for _ in range(2)] for _ in range(100)],
        [[254] * 10] * 3,
        [[DICE.randrange(252, 257) for _ in range(12)] for _ in range(5)],
    ],
    ids=["anywhere", "once each", "253 each night", "near the top"],
)
def test_restarts_are_no_wraps(lives: list[list[int]]) -> None:
    said = found(restarting(lives))
    assert (said["seq_bits"], said["missing"], said["copies"]) == (None, 0, 0)
    restarts = {name: each["restarts"] for name, each in said["by_machine"].items()}
    assert restarts == {f"m{number}": len(each) - 1 for number, each in enumerate(lives)}


def test_restarts_get_no_width_from_wraps() -> None:
    dice = Random(2)
    for wraps, length in ((0, 3_000), (3, 1_000)):  # more wraps than all restarts, and fewer
        lives = [[length], *([dice.randrange(80, 200) for _ in range(4)] for _ in range(2))]
        said = found([row._replace(seq=(row.seq or 0) % 256) for row in restarting(lives)])
        assert (said["seq_bits"], said["missing"], said["copies"]) == (None, 0, 0)
        assert [said["by_machine"][f"m{at}"]["restarts"] for at in range(3)] == [wraps, 3, 3]


@pytest.mark.parametrize("seed", seeds_of_today(2))
def test_restart_keeps_width_of_others(seed: int) -> None:
    dice = Random(seed)
    rows = restarting([[1_100]] * 9 + [[dice.randrange(30, 120)] * 2])
    lossy = [row for row in rows if dice.random() > 0.2]
    assert found([row._replace(seq=(row.seq or 0) % 256) for row in lossy])["seq_bits"] == 8


def test_wrapping_counter_can_restart() -> None:
    said = found(counted(seq % 256 for seq in (*range(300), *range(700))))
    assert (of_numbers(said), said["seq_bits"]) == ({"a": [0, 0, 0, 1]}, 8)


@pytest.mark.parametrize("seed", seeds_of_today(3))
@pytest.mark.parametrize("pause_ms", [0, 100, 5_000])
def test_quick_restarts_are_counted(seed: int, pause_ms: int) -> None:
    dice = Random(seed)
    sent = []
    at_ns = BEGIN_NS
    for life in range(4):
        at_ns += pause_ms * MS
        for seq in range(60):
            at_ns += dice.randrange(1, 20) * MS
            for _ in range(1 + (dice.random() < 0.1)):
                delay_ns = (
                    dice.randrange(10) * MS + (dice.random() < 0.1) * dice.randrange(300) * MS
                )
                if dice.random() > 0.05:
                    sent.append(AuditRow("a", seq, None, at_ns, at_ns + delay_ns, offset=life))
    sent.sort(key=lambda row: row.arrival_ns or 0)
    assert checked_findings(sent)["by_machine"]["a"]["restarts"] >= 3


def test_given_epochs_are_used() -> None:
    lives = [row._replace(epoch=at // 256) for at, row in enumerate(counted([*range(256)] * 5))]
    assert found(lives)["seq_bits"] is None
    said = checked_findings(counted([5, 6, 0, 7, 0, 3], [0, 0, 1, 0, 1, 1]))
    assert said["by_machine"]["a"]["restarts"] == 1
    assert (said["copies"], said["missing"]) == (1, 2)


def test_fast_clock_is_found() -> None:
    rows = plant(1, records=6_000)
    said = found(rows)
    fast = said["by_machine"][FAST]
    assert fast["verdict"] == "fast by 41 s"
    assert abs(fast["clock_ms"] - FAST_BY_NS / MS) <= fast["clock_error_ms"]
    assert next(iter(said["by_machine"])) == FAST
    for name, machine in said["by_machine"].items():
        assert machine["restarts"] == (1 if name == RESTARTS else 0)
        assert name == FAST or abs(machine["clock_ms"]) <= machine["clock_error_ms"]
        assert machine["missing"] < 0.05 * machine["records"]
    first = {(row.source, row.seq): row for row in reversed(rows)}
    fast_ns = [row.ts_ns for row in first.values() if row.source == FAST]
    moved = windows_moved((ts_ns, ts_ns - FAST_BY_NS) for ts_ns in fast_ns)
    assert said["windows"]["wrong_by_clock"] == moved
    assert min(each["wrong"] for each in said["windows"]["lateness"].values()) > 0
    assert said["inorder"]["wrong_at_last"] == 0


def windows_moved(times: Iterable[tuple[int, int]]) -> int:
    """Return how many one-minute windows change their count.

    Each event has a reported time and its event time.
    """
    moved: Counter[int] = Counter()
    for shown_ns, true_ns in times:
        moved[shown_ns // (60 * S)] -= 1
        moved[true_ns // (60 * S)] += 1
    return sum(1 for count in moved.values() if count)


def test_clocks_need_arrival_times() -> None:
    rows = [row._replace(arrival_ns=None) for row in plant(4)]
    said = checked_findings(rows, replace(ASKED, arrives=False))
    assert said["clocks_by"] == "lines"
    assert said["by_machine"][FAST]["clock_ms"] is None
    verdicts = {each["verdict"] for each in said["by_machine"].values()}
    assert {each for each in verdicts if "fast" in each or "slow" in each} == set()
    assert said["windows"]["wrong_by_clock"] == 0


def test_drift_makes_windows_wrong() -> None:
    rows = []
    for name in ("x", "a", "b", "c"):
        for seq in range(3_000):
            at_ns = BEGIN_NS + seq * S + S // 2
            ts_ns = at_ns + (seq * S // 200 if name == "x" else 0)
            rows.append(AuditRow(name, seq, None, ts_ns, at_ns + 10 * MS))
    rows.sort(key=lambda row: row.arrival_ns or 0)
    said = found(rows)
    assert said["by_machine"]["x"]["verdict"] == "drifting"
    moved = windows_moved((row.ts_ns, (row.arrival_ns or 0) - 10 * MS) for row in rows)
    assert said["windows"]["wrong_by_clock"] == moved


def test_empty_audit_has_zeros() -> None:
    said = found([])
    assert said["records"] == said["machines"] == said["windows"]["all"] == 0


def audit_rows(rows: Sequence[TraceRow]) -> list[AuditRow]:
    return [AuditRow(row.source, row.seq, None, row.ts_ns, row.arrival_ns) for row in rows]


def trace(name: str) -> list[AuditRow]:
    return audit_rows(recorded(TRACES[name]))


@pytest.mark.parametrize("name", ["jr_umts/d1", "mesh_sensors/tdma_interference"])
def test_trace_matches_brute_force(name: str) -> None:
    checked_findings(trace(name)[:2_000], replace(ASKED, length_ns=10 * S))


@pytest.mark.parametrize(
    ("name", "out_of_time", "out_of_sequence", "longest_ms"),
    [("jr_umts/d1", 1_544, 7, 4_544), ("jr_umts/d2", 3_666, 2, 3_457)],
)
def test_trace_has_published_figures(
    name: str, out_of_time: int, out_of_sequence: int, longest_ms: int
) -> None:
    said = found(trace(name))
    assert said["out_of_time"] == out_of_time
    assert said["out_of_sequence"] == out_of_sequence
    assert said["late_ms"]["max"] == longest_ms
    assert (said["missing"], said["copies"]) == (0, 0)


def test_clocks_agree_with_ntp_offsets() -> None:
    own = recorded(partial(read_jr_umts, "d1", own_clocks=True))
    offsets_ms = {row.source: -int(row.payload["ntp_offset_ms"]) for row in own}
    known = found(audit_rows(own))["by_machine"]
    for (one, one_ms), (other, other_ms) in product(offsets_ms.items(), repeat=2):
        apart_ms = known[one]["clock_ms"] - known[other]["clock_ms"]
        bound_ms = known[one]["clock_error_ms"] + known[other]["clock_error_ms"]
        assert abs(apart_ms - (one_ms - other_ms)) <= bound_ms
    assert known["dev_10"]["verdict"] == "fast by 31 s"  # The median of the others is 0.7 s slow.
