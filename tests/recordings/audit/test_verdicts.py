"""Examples: an audit's verdict on each source, and the clock offset that it finds."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from recordings.audit import counting, findings, numbers, plain_jobs
from recordings.audit.counting import TooManyMachines
from recordings.audit.document import make_document
from recordings.audit.findings import Asked, audit
from recordings.audit.numbers import TooManyGaps
from recordings.audit.plain_jobs import TooManyWindows
from recordings.audit.row import ONE_ORDER, AuditRow
from recordings.audit.verdicts import format_in_one_unit, format_short
from tests.seeds import seeds_of_today

MS = 1_000_000
S = 1_000 * MS
H = 3_600 * S
LASTS_NS = 1_200 * S
BEGIN_NS = 1_700_000_000 * S
ASKED = Asked(60 * S, (0, 5 * S), ONE_ORDER, arrives=True)


def fleet(odd: Callable[[int], int | None], machines: int = 5) -> Any:
    """Return the findings, by source, on a fleet in which each source sends once a second.

    `odd` gives how far the clock of `x` is ahead at an instant after the start, or None if it sends
    nothing.
    """
    dice = Random(1)
    sent = []
    for name in ["x", *(f"m{number}" for number in range(machines - 1))]:
        for seq in range(LASTS_NS // S):
            at_ns = seq * S + dice.randrange(S // 2)
            ahead_ns = odd(at_ns) if name == "x" else 0
            if ahead_ns is None:
                continue
            arrival_ns = BEGIN_NS + at_ns + 5 * MS + dice.randrange(30 * MS)
            if dice.random() < 0.02:
                arrival_ns += dice.randrange(10 * S)
            sent.append(AuditRow(name, seq, None, BEGIN_NS + at_ns + ahead_ns, arrival_ns))
    return findings_on(sent)


def findings_on(rows: list[AuditRow]) -> Any:
    """Return the findings, by source, on rows in order of arrival."""
    arrived = sorted(rows, key=lambda row: row.arrival_ns or 0)
    return make_document(audit(arrived, ASKED))["by_machine"]


@pytest.mark.parametrize(
    ("odd", "verdict", "clock_ms"),
    [
        (lambda _: 0, "fine", 0),
        (lambda _: 300 * MS, "fine", 300),
        (lambda _: 41 * S, "fast by 41 s", 41_000),
        (lambda _: -3 * H, "slow by 3 h", -3 * 3_600_000),
        (lambda at: 20 * S if at > LASTS_NS // 2 else 0, "jumped", 20_000),
        (lambda at: -20 * S if at > LASTS_NS // 3 else 0, "jumped", -20_000),
        (lambda at: 20 * S if LASTS_NS // 3 < at < LASTS_NS // 2 else 0, "jumped", 0),
        (lambda at: None if at > LASTS_NS // 2 else 0, "silent since", 0),
    ],
    ids=["fine", "near", "fast", "slow", "ahead", "back", "to and fro", "silent"],
)
def test_clock_fault_gets_its_verdict(
    odd: Callable[[int], int | None], verdict: str, clock_ms: float
) -> None:
    said = fleet(odd)
    assert said["x"]["verdict"].startswith(verdict)
    assert abs(said["x"]["clock_ms"] - clock_ms) <= said["x"]["clock_error_ms"]
    assert {said[name]["verdict"] for name in said if name != "x"} == {"fine"}


def test_drift_is_measured() -> None:
    said = fleet(lambda at: at * 500 // 1_000_000)
    assert said["x"]["verdict"] == "drifting"
    assert abs(said["x"]["drift_ppm"] - 500) < 50
    assert all(abs(said[name]["drift_ppm"]) < 50 for name in said if name != "x")


def pausing(seed: int, ahead_ns: Callable[[int, int], int]) -> Any:
    """Return the findings on five sources that all pause for ten minutes after 500 events.

    `ahead_ns` gives how far the clock of `x` is ahead at a number and an instant.
    """
    dice = Random(seed)
    rows = []
    for name in ("x", "a", "b", "c", "d"):
        for seq in range(1_000):
            at_ns = seq * 3 * S + dice.randrange(S) + (600 * S if seq >= 500 else 0)
            ts_ns = BEGIN_NS + at_ns + (ahead_ns(seq, at_ns) if name == "x" else 0)
            arrival_ns = BEGIN_NS + at_ns + 5 * MS + dice.randrange(30 * MS)
            rows.append(AuditRow(name, seq, None, ts_ns, arrival_ns))
    return findings_on(rows)


@pytest.mark.parametrize("ppm", [2_000, -2_000, 20_000])
def test_drift_in_pause_is_no_jump(ppm: int) -> None:
    said = pausing(3, lambda _, at_ns: at_ns * ppm // 1_000_000)
    assert (said["x"]["verdict"], said["x"]["jumps"]) == ("drifting", 0)
    assert abs(said["x"]["drift_ppm"] - ppm) < abs(ppm) // 10
    assert {said[name]["verdict"] for name in said if name != "x"} == {"fine"}


@pytest.mark.parametrize("jump_ns", [20 * S, -20 * S, 3 * S])
@pytest.mark.parametrize("at_pause", [0, 60])
def test_jump_beside_pause_is_found(jump_ns: int, at_pause: int) -> None:
    said = pausing(4, lambda seq, _: jump_ns if seq >= 500 + at_pause else 0)
    assert (said["x"]["verdict"], said["x"]["jumps"]) == ("jumped", 1)


def test_restart_is_reported() -> None:
    rows = [
        AuditRow(name, seq - 200 if name != "a" and seq >= 200 else seq, epoch, at_ns, at_ns)
        for seq in range(400)
        for at_ns in (BEGIN_NS + seq * S,)
        for name in ("a", "b", "c")
        for epoch in (seq // 200 if name == "c" else None,)
    ]
    said = findings_on(rows)
    assert [said[name]["verdict"] for name in "abc"] == ["fine", "restarted", "restarted"]
    assert [said[name]["restarts"] for name in "abc"] == [0, 1, 1]


def test_advice_counts_wrong_clocks() -> None:
    def said(fast: int) -> tuple[int, tuple[str, str, str]]:
        rows = [
            AuditRow(name, seq, None, at_ns + 41 * S * (index < fast), at_ns)
            for seq in range(300)
            for index, name in enumerate("abcdefg")
            for at_ns in (BEGIN_NS + seq * S + index * MS,)
        ]
        found = audit(rows, ASKED)
        verdicts = sum("fast" in each for each in found.verdicts.values())
        return verdicts, list(found.advice.settings())[-1]

    assert said(2) == (2, ("clock.unsynced", "estimate", "wrong clocks: 2"))
    assert said(0) == (0, ("clock.unsynced", "trust", "no clock is known to be wrong"))


DAY = 24 * H
YEARS = 11 * 365 * DAY


@pytest.mark.parametrize(
    ("odd", "verdict"),
    [
        (lambda at: at, "unknown"),
        (lambda at: at + 41 * S, "unknown"),
        (lambda at: at + 5 * H, "unknown"),
        (lambda at: at + YEARS if at == 150 * S else at, "jumped"),
        (lambda at: at + 2 * DAY if at == 150 * S else at, "jumped"),
        (lambda at: at + YEARS if at >= 299 * S else at, "jumped"),
        (lambda at: at - BEGIN_NS if at == 150 * S else at, "jumped"),
        (lambda at: at - BEGIN_NS if at < 20 * S else at, "jumped"),
        (lambda at: at - 3 * DAY if at == 150 * S else at, "unknown"),  # The event can be late.
        (lambda at: at + 5 * DAY if at > 150 * S else at, "unknown"),  # The source can be silent.
    ],
)
@pytest.mark.parametrize("others", ["", "ab"])
def test_jump_shows_without_arrival_times(
    odd: Callable[[int], int], verdict: str, others: str
) -> None:
    """Without arrival times, a clock that is merely ahead stays `unknown`."""
    rows = [
        AuditRow(name, seq, None, BEGIN_NS + (odd(seq * S) if name == "x" else seq * S))
        for seq in range(300)
        for name in others + "x"
    ]
    found = audit(rows, Asked(60 * S, (0, 5 * S), ONE_ORDER, arrives=False))
    said = make_document(found)["by_machine"]
    assert said.pop("x")["verdict"] == verdict
    assert {each["verdict"].split()[0] for each in said.values()} <= {"unknown", "silent"}
    assert found.advice.unmended == (verdict == "jumped")
    assert found.advice.wrong_clocks == 0


def test_rows_without_arrivals_judge_none() -> None:
    """Without arrival times, each source in time order is `unknown` or `silent`."""
    every = {"often": 20 * S, "seldom": 1_200 * S, "rarely": 20 * DAY}
    sent = sorted((BEGIN_NS + n * each, name, n) for name, each in every.items() for n in range(90))
    rows = [AuditRow(name, n, None, at_ns) for at_ns, name, n in sent]
    found = audit(rows, Asked(60 * S, (0, 5 * S), ONE_ORDER, arrives=False))
    assert {each.split()[0] for each in found.verdicts.values()} == {"unknown", "silent"}


def test_outage_is_no_clock_jump() -> None:
    dice = Random(2)
    rows = []
    for name in ("x", "a", "b", "c"):
        for seq in range(1_800):
            at_ns = BEGIN_NS + seq * S
            held = name == "x" and 600 <= seq < 700
            arrival_ns = BEGIN_NS + 700 * S if held else at_ns + dice.randrange(20 * MS)
            rows.append(AuditRow(name, seq, None, at_ns, arrival_ns))
    assert {each["verdict"] for each in findings_on(rows).values()} == {"fine"}


@pytest.mark.parametrize("seed", seeds_of_today(3))
def test_late_records_are_no_clock_fault(seed: int) -> None:
    dice = Random(seed)
    rows = [
        (at_ns + dice.choice((0, 20, 100, 4_000, 20_000)) * MS, name, number, at_ns)
        for name in "abcd"
        for number in range(120)
        for at_ns in [BEGIN_NS + (number * 700 + dice.randrange(300)) * MS]
    ]
    given = [AuditRow(name, n, None, ts_ns, at_ns) for at_ns, name, n, ts_ns in sorted(rows)]
    said = make_document(audit(given, ASKED))
    assert {each["verdict"] for each in said["by_machine"].values()} == {"fine"}
    assert said["windows"]["wrong_by_clock"] == 0


def test_few_duplicates_are_resends() -> None:
    rows = [
        AuditRow(name, seq, None, BEGIN_NS + seq * S, BEGIN_NS + seq * S)
        for seq in range(300)
        for name in ("a", "b")
        for _ in range(2 if name == "a" and seq % 50 == 0 else 1)
    ]
    said = findings_on(rows)
    assert [said[name]["verdict"] for name in ("a", "b")] == ["resends", "fine"]


def test_two_clocks_can_be_judged() -> None:
    said = fleet(lambda _: 41 * S, machines=2)
    assert [said[name]["verdict"] for name in ("x", "m0")] == ["fast by 41 s", "fine"]


def test_durations_have_short_texts() -> None:
    lengths_ns = (0, 850_000, 12 * MS, 1_500 * MS, 41 * S, 60 * S, 90 * S, 200 * S, 3 * H, 100 * H)
    texts = "0 ms, 0.85 ms, 12 ms, 1.5 s, 41 s, 1 min, 90 s, 3.3 min, 3 h, 4.2 d"
    assert ", ".join(map(format_short, lengths_ns)) == texts
    assert format_short(7_199_819 * MS) == "2 h"


@pytest.mark.parametrize(
    ("amounts_ns", "said"),
    [
        ([], ([], "ms")),
        ([0], (["0"], "ms")),
        ([850_000, 12.34 * MS], (["0.85", "12.3"], "ms")),
        ([360 * MS, 975 * MS], (["360", "975"], "ms")),
        ([4 * MS, 26_118.532 * MS], (["< 0.01", "26.1"], "s")),
        ([89 * S, 2_520 * S], (["1.48", "42"], "min")),
        ([7_199.819 * S], (["2"], "h")),
        ([5_000 * 24 * H], (["5,000"], "d")),
    ],
)
def test_amounts_in_a_line_share_a_unit(
    amounts_ns: list[float], said: tuple[list[str], str]
) -> None:
    assert format_in_one_unit(amounts_ns) == said


def test_sources_above_bound_share_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recordings.audit.document.MAX_NAMED", 3)
    rows = [
        AuditRow(f"m{at % 5}", at // 5, None, BEGIN_NS + at * S, BEGIN_NS + at * S)
        for at in range(100)
    ]
    said = make_document(audit(rows, ASKED))
    assert said["machines"] == 5
    assert len(said["by_machine"]) == 4
    rest = said["by_machine"][findings.REST]
    assert (rest["machines"], rest["records"], rest["copies"]) == (2, 40, 0)


@pytest.mark.parametrize(
    ("module", "bound", "error"),
    [
        (counting, "MAX_MACHINES", TooManyMachines),
        (plain_jobs, "MAX_WINDOWS", TooManyWindows),
        (numbers, "MAX_GAPS", TooManyGaps),
    ],
)
def test_audit_beyond_bound_fails(
    monkeypatch: pytest.MonkeyPatch, module: Any, bound: str, error: type[Exception]
) -> None:
    rows = [
        AuditRow(f"m{at}", seq, None, BEGIN_NS + at * H, BEGIN_NS + at * H)
        for at in range(100)
        for seq in (0, 2, 4)
    ]
    audit(rows, ASKED)
    monkeypatch.setattr(module, bound, 50)
    with pytest.raises(error):
        audit(rows, ASKED)
