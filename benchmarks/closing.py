"""Judge how a waiting strategy closed windows, by its error and its wait, knowing all arrivals.

* *error*: the share of the windows that missed an event (MER of the paper).
* *worst*: the largest value of errors so far / windows so far - delta over all prefixes of the
  closed windows. If it is 0 or less, the target was met at every prefix. `settled` leaves out the
  first 1 / delta windows, in which one miss already exceeds the target.
* *wait*: the mean of close time - end of the window. It is below 0 if windows close before their
  end, because no more events are expected in them.
* *way*: the reduction of the wait from event-driven, as a share of that of the Oracle.
* *worst stretch*: the largest error of 1 000 consecutive windows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.baselines.early_windows import EarlyWindows
from benchmarks.baselines.ignore import Ignore
from benchmarks.oracle import find_oracle_waits, last_arrivals
from benchmarks.published.event_driven import EventDriven
from benchmarks.published.mean_delay import AverageDelay
from benchmarks.published.prob_slack import ProbSlack
from benchmarks.workloads.laws import MS
from benchmarks.workloads.windows import Stream
from topology.answer.waiting.budget import AccuracyBudget
from topology.answer.waiting.driver import Closing
from topology.answer.waiting.policy import END, SlackPolicy
from topology.answer.waiting.risk import RiskSlack
from topology.base.event import Event

STRETCH: Final = 1_000
ORACLE: Final = "Oracle"
EVENT_DRIVEN: Final = "event-driven"
OURS: Final = "ours"

Make = Callable[[float], SlackPolicy]

STRATEGIES: Final[dict[str, Make]] = {
    EVENT_DRIVEN: lambda _: EventDriven(),
    "ignore": lambda _: Ignore(),
    "average delay": lambda _: AverageDelay(),
    "ProbSlack, printed": ProbSlack,
    "printed, no guard": lambda delta: ProbSlack(delta, guard=False),
    "posterior <= delta": lambda delta: RiskSlack(AccuracyBudget(delta, rate=0), weigh=False),
    "posterior, threshold": lambda delta: RiskSlack(AccuracyBudget(delta), weigh=False),
    OURS: lambda delta: RiskSlack(AccuracyBudget(delta)),
}
"""The strategies by name; each function makes one for a delta.

The K-Slack family is left out. It follows the order of one source, and these streams are in order.
"""

HEEDLESS: Final = (EVENT_DRIVEN, "ignore", "average delay")
"""The strategies that do not depend on delta."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The figures of one run, with waits in ns."""

    windows: int
    error: float
    worst: float
    settled: float
    worst_stretch: float
    wait_ns: float
    way: float = 0.0


def run(stream: Stream, policy: SlackPolicy, every_ns: int, *, early: bool) -> dict[int, int]:
    """Return the closing time of each window, without windows closed only by the stream's end."""
    driver = EarlyWindows(policy, every_ns, early=early, tick_ns=MS, first=1)
    events = [Event("default", "0", 0, at, ts, came) for at, (ts, came) in enumerate(stream)]
    closings: dict[int, int] = {}
    for said in driver.on_batch(events, stream[-1][1]):
        if isinstance(said, Closing) and said.by != END:
            for window in range(said.number, said.through + 1):
                closings[window] = said.at_ns
    return closings


def judge(stream: Stream, closings: dict[int, int], every_ns: int, delta: float) -> Closed:
    last = last_arrivals(stream, every_ns)
    missed = [last.get(window, at_ns) > at_ns for window, at_ns in closings.items()]
    waits = [at_ns - window * every_ns for window, at_ns in closings.items()]
    worst, settled, misses = -delta, -delta, 0
    for number, miss in enumerate(missed, start=1):
        misses += miss
        # Integers are compared, so that 1 of 10 is not more than 0.1.
        excess = (misses * 10**6 - round(delta * 10**6) * number) / (number * 10**6)
        worst = max(worst, excess)
        if number * delta >= 1:
            settled = max(settled, excess)
    windows = len(missed)
    return Closed(
        windows,
        misses / windows,
        worst,
        settled,
        worst_stretch(missed),
        sum(waits) / windows,
    )


def worst_stretch(missed: Sequence[bool]) -> float:
    if len(missed) <= STRETCH:
        return sum(missed) / max(1, len(missed))
    within = most = sum(missed[:STRETCH])
    for leaves, enters in zip(missed, missed[STRETCH:], strict=False):
        within += enters - leaves
        most = max(most, within)
    return most / STRETCH


def judge_oracle(
    stream: Stream, every_ns: int, delta: float, windows: int, *, early: bool
) -> Closed:
    waits = find_oracle_waits(stream, every_ns, delta, range(1, windows + 1), early=early)
    error = int(delta * windows) / windows
    return Closed(windows, error, 0.0, 0.0, error, sum(waits) / windows, 1.0)
