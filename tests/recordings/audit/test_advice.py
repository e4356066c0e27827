"""Examples: the waits that an audit proposes for fleets with known faults."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Final
from zoneinfo import ZoneInfo

import pytest

from recordings.audit.advice import STEPS_NS, Advice
from recordings.audit.document import make_document
from recordings.audit.engine_run import EngineFigures
from recordings.audit.findings import Asked, audit, tune_lateness
from recordings.audit.row import ONE_ORDER, AuditRow
from tests.seeds import seeds_of_today

MS: Final = 1_000_000
S: Final = 1_000 * MS
MIN: Final = 60 * S
H: Final = 60 * MIN
BEGIN_NS: Final = 1_792_886_400 * S
"""2026-10-25 00:00 UTC: in Berlin, clocks go from summer time to standard time an hour later."""
ASKED: Final = Asked(MIN, (0, 5 * S), ONE_ORDER, arrives=True)

Delay = Callable[[int], int]


def fleet(
    seed: int,
    *,
    ahead_ns: int = 0,
    ends_ns: int = 80 * MIN,
    delay_ns: Delay = lambda _: 0,
    numbered: bool = True,
) -> list[AuditRow]:
    """Return the rows of five vans that send every 20 s for 80 minutes, half a second before
    arrival.

    `van-0` has a clock that is ahead by `ahead_ns`. It sends nothing from `ends_ns` on, and its
    records are delayed by `delay_ns` of the time since the start.
    """
    dice = Random(seed)
    rows = []
    for van in range(5):
        odd = van == 0
        for seq in range(240):
            at_ns = seq * 20 * S + van * S + dice.randrange(S // 2)
            if odd and at_ns >= ends_ns:
                break
            arrival_ns = at_ns + dice.randrange(100, 600) * MS + odd * delay_ns(at_ns)
            rows.append(
                AuditRow(
                    f"van-{van}",
                    seq if numbered or not odd else None,
                    None,
                    BEGIN_NS + at_ns + odd * ahead_ns,
                    BEGIN_NS + arrival_ns,
                )
            )
    return sorted(rows, key=lambda row: row.arrival_ns or 0)


def outage(first_min: int, last_min: int) -> Delay:
    """Return delays with which all records sent between two times arrive at the second one."""

    def delay_ns(at_ns: int) -> int:
        return last_min * MIN - at_ns if first_min * MIN <= at_ns < last_min * MIN else 0

    return delay_ns


@pytest.mark.parametrize("seed", seeds_of_today(1))
@pytest.mark.parametrize(("lasts_min", "proposed_min"), [(5, 10), (13, 15), (40, 45), (58, 60)])
def test_lateness_covers_the_outage(seed: int, lasts_min: int, proposed_min: int) -> None:
    found = audit(fleet(seed, delay_ns=outage(20, 20 + lasts_min)), ASKED)
    (key, value, why), *others = found.advice.settings()
    assert (key, found.advice.correct_for_ns) == ("correct_for", proposed_min * MIN)
    assert found.engine.at_last == set()
    least_ns, wrong, left = found.advice.tried or (0, 0, 0)
    assert (least_ns, left) == (10 * MIN, 0)
    assert (wrong > 0) == (proposed_min > 10)
    assert value == ("1h" if proposed_min == 60 else f"{proposed_min}min")
    if wrong:
        assert why == f"windows wrong after corrections: 0 (with 10min: {wrong})"
    else:
        assert why == "no window is wrong after corrections"
    assert all(reason for _, _, reason in others)


LONGER: Final = [step_ns for step_ns in STEPS_NS if step_ns >= 10 * MIN]


@pytest.mark.parametrize("left", [0, 3])
@pytest.mark.parametrize("needed_ns", LONGER)
def test_shortest_sufficient_wait_is_chosen(needed_ns: int, left: int) -> None:
    def run(advice: Advice) -> EngineFigures:
        runs.append(advice.correct_for_ns)
        wrong = left if advice.correct_for_ns >= needed_ns else 29
        return EngineFigures(array("q"), set(), set(range(wrong)), 0)

    runs: list[int] = []
    first = audit(fleet(1)[:50], ASKED).advice
    assert first.correct_for_ns == LONGER[0]
    advice, engine = tune_lateness(first, run)
    assert advice.correct_for_ns == needed_ns
    assert len(engine.at_last) == left
    before = 29 if needed_ns > LONGER[0] else left
    assert advice.tried == (LONGER[0], before, left)
    assert len(runs) <= 5
    said = advice.why_correct_for()
    assert ("(with 10min: 29)" in said) == (before > left)
    assert ("; 12h leaves as many" in said) == (left > 0)


@pytest.mark.parametrize("seed", seeds_of_today(1))
@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize("ahead_ns", [2 * H, -2 * H, 95 * S])
def test_wrong_clock_keeps_other_advice(seed: int, ahead_ns: int, numbered: bool) -> None:
    """A clock that is behind can only raise the allowed lateness."""
    right = audit(fleet(seed, numbered=numbered), ASKED).advice
    found = audit(fleet(seed, numbered=numbered, ahead_ns=ahead_ns), ASKED)
    assert found.advice.wrong_clocks == 1
    assert right.correct_for_ns == 10 * MIN
    assert right.new_source_allowance_ns <= 2 * MIN
    assert found.engine.at_last == set()
    if ahead_ns > 0:
        assert replace(found.advice, wrong_clocks=0) == right
    else:  # Before its clock is known, its first records are in windows of two hours ago.
        assert found.advice.tried is not None
        assert (found.advice.tried.least_ns, found.advice.tried.left) == (10 * MIN, 0)
        shorter = replace(found.advice, wrong_clocks=0, correct_for_ns=10 * MIN)
        assert replace(shorter, tried=right.tried) == right


def test_clock_set_back_adds_no_wait() -> None:
    def rows(ahead_ns: int) -> list[AuditRow]:
        return [
            row._replace(ts_ns=row.ts_ns + ahead_ns)
            if row.source == "van-0" and row.ts_ns < BEGIN_NS + 40 * MIN
            else row
            for row in fleet(2, numbered=False)
        ]

    right, found = (audit(rows(ahead_ns), ASKED).advice for ahead_ns in (0, 2 * H))
    assert (found.wrong_clocks, found.max_wait_ns) == (1, right.max_wait_ns)
    assert found.tried is not None
    assert found.tried.least_ns == right.correct_for_ns


def worst(rows: Sequence[AuditRow], asked: Asked = ASKED) -> tuple[str, str]:
    name, said = next(iter(make_document(audit(rows, asked))["by_machine"].items()))
    return name, said["verdict"]


def test_silent_source_ranks_first() -> None:
    rows = [
        row._replace(ts_ns=row.ts_ns + 2 * H) if row.source == "van-3" else row
        for row in fleet(1, ends_ns=70 * MIN)
    ]
    assert worst(rows) == ("van-0", "silent since 01:09 UTC")
    berlin = replace(ASKED, zone=ZoneInfo("Europe/Berlin"))
    assert worst(rows, berlin) == ("van-0", "silent since 02:09 CET")
    assert worst(fleet(1, ends_ns=30 * MIN), berlin) == ("van-0", "silent since 02:29 CEST")
