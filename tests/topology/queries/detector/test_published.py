"""Examples: the paper's own traces (figures 4 and 8, algorithm 3), line by line."""

from __future__ import annotations

from typing import Any

from benchmarks.baselines.alpha import Fixed, Load, Tcp
from benchmarks.baselines.type_slack import KSlack
from topology.answer.spending import WHOLE
from topology.base.operator import NEVER
from topology.queries.detector.detector import Detector, behaviour_of
from topology.queries.detector.item import FIRST, Key, LogEntry, Seen, behind
from topology.queries.detector.unit import Unit

TICK = 3_000_000
"""A unit of the figures in ns, which is divisible by three."""


def _arrivals(text: str) -> list[tuple[str, int]]:
    return [(word[0], int(word[1:])) for word in text.split()]


def _is_purged(time_ns: int, slack: KSlack) -> bool:
    return time_ns + slack.k_ns < slack.clock_ns


def reads(text: str, alpha_ppm: int) -> tuple[list[str], dict[str, int]]:
    """Return the events in the order in which the detector reads them, and K as each event arrives.

    In the figure, all before `clk - K` is purged. Events after the last purged one are not late
    (algorithm 2; the engine's own rule is `<=`).
    """
    told: list[str] = []

    def step(state: Any, event: Seen) -> tuple[Any, None]:
        told.append(f"{event.type}{event.time_ns // TICK}")
        return state, None

    unit = Unit(behaviour_of(Detector(step)), b"")
    slack, policy = KSlack("A"), Fixed(alpha_ppm)
    came: list[Key] = []
    k_at: dict[str, int] = {}
    for number, (type_, time) in enumerate(_arrivals(text)):
        seen = Seen(type_, time * TICK, None, "s", 0, number + 1)
        assert unit.put("", LogEntry(seen)) == ""
        came.append(seen.key)
        rollbacks = unit.counts.rollbacks
        slack.observe(type_, seen.time_ns)
        k_at[f"{type_}{time}"] = slack.k_ns // TICK
        read_ns = slack.clock_ns - policy.wait_ns(slack.k_ns)
        purged = max((key for key in came if _is_purged(key[0], slack)), default=FIRST)
        unit.advance(behind(read_ns), (*purged[:4], purged[4] + 1))
        if unit.counts.rollbacks > rollbacks and unit.counts.replayed:
            told.append("|")
    return told, k_at


def test_events_after_late_one_are_reread() -> None:
    """After a late event, all later events are read again."""
    for text in (
        "A0 A2 C1 A3 B4 A6 C5 B8 C7 A11 B10 A12 C9",
        "A0 A2 C1 A3 B4 A6 C5 B8 C7 B10 A11 A12 C9",
    ):
        told, k_at = reads(text, WHOLE // 3)
        in_order = [word for word in told if word != "|"]
        assert " ".join(in_order) == "A0 A2 C1 A2 A3 B4 C5 A6 C7 B8 B10 C9 B10"
        assert (k_at["A2"], k_at["A3"], k_at["A11"]) == (0, 2, 6)


def test_figure_4_buffers_events_for_k() -> None:
    """K is measured when the clock advances, and each event is buffered that long."""
    slack = KSlack("A")
    k_at = {}
    for type_, time in _arrivals("A0 A2 C1 A4 B3 A6 C5"):
        slack.observe(type_, time * TICK)
        k_at[f"{type_}{time}"] = slack.k_ns // TICK
    assert (k_at["A2"], k_at["C1"], k_at["A4"], k_at["A6"]) == (0, 0, 3, 3)
    leaves = {name: int(name[1:]) + k_at["A6"] for name in ("C1", "B3", "A4", "C5")}
    assert leaves == {"C1": 4, "B3": 6, "A4": 7, "C5": 8}
    assert slack.final_ns == 3 * TICK, "all up to B3 is final when the clock is 6"


def test_k_only_grows_up_to_a_bound() -> None:
    slack = KSlack(initial_ns=5, max_ns=20)
    assert slack.final_ns == -NEVER
    for time in (10, 4, 30, 31, 32):
        slack.observe("A", time)
    assert slack.k_ns == 20, "26, but for the bound"


def test_algorithm_3_adapts_alpha() -> None:
    policy = Tcp()
    alphas = []
    for busy in (60, 65, 70, 85, 85, 95, 70, 70, 70, 70):
        policy.observe(Load(busy, 0, 100), 0)
        alphas.append(policy.alpha_ppm)
    expected = [0.5, 0.25, 0.125, 0.125, 0.125, 1, 0.5, 0.45, 0.40, 0.35]
    assert alphas == [int(alpha * WHOLE) for alpha in expected]
