"""Propose the topology of an audit: the settings that matter for this data, and the reasons.

The waits follow from the time within which all but one in a thousand missing or late records
arrived. They are a quarter longer, rounded up to one of `STEPS_NS`. A single record from yesterday
therefore does not make all others wait for hours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

from recordings.audit.counting import Counting
from recordings.audit.judged_clocks import JudgedClock
from recordings.audit.mended import Mended
from recordings.audit.quantiles import nearest_rank, sort_values
from recordings.audit.verdicts import format_short
from topology.order.reorder.settings import SeqRange

MS: Final = 1_000_000
S: Final = 1_000 * MS
MIN: Final = 60 * S
H: Final = 60 * MIN
STEPS_NS: Final = tuple(
    step * unit
    for unit, steps in (
        (MS, (100, 200, 500)),
        (S, (1, 2, 5, 10, 15, 20, 30)),
        (MIN, (1, 2, 5, 10, 15, 30, 45)),
        (H, (1, 2, 6, 12)),
    )
    for step in steps
)
ROOM: Final = 1.25
NEARLY_ALL: Final = 999
MOST_SILENCES: Final = 900
"""The rank, in thousandths, of the silence used for `idle_after`.

Nine in ten sources are never silent for longer.
"""

LEAST_IDLE_NS: Final = 2 * S
LEAST_CORRECT_NS: Final = 10 * MIN


class Tried(NamedTuple):
    """The trials of the allowed lateness: how many windows the engine left wrong at last.

    Attributes:
        least_ns: The first allowed lateness tried, which follows from the usual delays.
        wrong: The number of windows that were wrong at last with it.
        left: The number of windows that are wrong at last with the proposed one.
    """

    least_ns: int
    wrong: int
    left: int


@dataclass(frozen=True, slots=True)
class Advice:
    """The proposed settings of a stream, and the figures behind them.

    All proposed durations are from `STEPS_NS`.

    Attributes:
        numbered: Whether sources have sequence numbers.
        unnumbered: The number of sources without sequence numbers that are in order by their time.
        max_wait_ns: The maximum wait of REORDER, derived from `waited_ns`.
        merge_wait_ns: The maximum wait of MERGE.
        idle_after_ns: The time after which a source is idle, derived from `silence_ns`.
        new_source_allowance_ns: The new-source allowance.
        correct_for_ns: The allowed lateness.
        wrong_clocks: The number of wrong clocks that the topology corrects.
        unmended: The number of wrong clocks that it does not correct.
        waited_ns: The time within which all but one in a thousand missing or late records arrived.
        silence_ns: The longest silence of a source, without the tenth of sources that were silent
            longest.
        seq_range: The range of sequence numbers that wrap; None if they do not wrap.
        max_set_back_ns: How far timestamps may fall, derived from `fall_ns`; 0 if it is 0.
        fall_ns: How far all records but one in a thousand are set back at most.
        tried: The trials from which `correct_for_ns` follows; None if the engine was not run.
    """

    numbered: bool
    unnumbered: int
    max_wait_ns: int
    merge_wait_ns: int
    idle_after_ns: int
    new_source_allowance_ns: int
    correct_for_ns: int
    wrong_clocks: int
    unmended: int
    waited_ns: int
    silence_ns: int
    seq_range: SeqRange | None
    max_set_back_ns: int
    fall_ns: int
    tried: Tried | None = None

    def all_settings(self) -> Iterator[tuple[str, str, str]]:
        """Yield the key, value and reason of each setting; the reason is empty if none is shown."""
        if self.seq_range is not None:
            if bits := self.seq_range.bits:
                yield "reorder.seq_bits", str(bits), f"numbers wrap at 2^{bits}"
            else:
                why = f"after {self.seq_range.last} numbers go on with {self.seq_range.first}"
                yield "reorder.seq_range", str(self.seq_range), why
        if not self.numbered:
            yield "reorder.rule", "time", ""
        elif self.unnumbered:
            yield "reorder.without_seq", "by_time", f"machines without numbers: {self.unnumbered:,}"
        waited = ["missing numbers"] * self.numbered + ["late records"] * bool(self.unnumbered)
        yield (
            "reorder.max_wait",
            format_exact_duration(self.max_wait_ns),
            f"99.9 % of {' and '.join(waited)} arrived within {format_short(self.waited_ns)}",
        )
        yield "merge.max_wait", format_exact_duration(self.merge_wait_ns), ""
        yield (
            "merge.idle_after",
            format_exact_duration(self.idle_after_ns),
            f"nine of ten machines were never silent for more than {format_short(self.silence_ns)}",
        )
        yield "merge.new_source_allowance", format_exact_duration(self.new_source_allowance_ns), ""
        if self.wrong_clocks:
            yield "clock.unsynced", "estimate", f"wrong clocks: {self.wrong_clocks:,}"
        else:
            unmended = f"wrong clocks: {self.unmended:,}, which only arrivals could correct"
            why = unmended if self.unmended else "no clock is known to be wrong"
            yield "clock.unsynced", "trust", why
        if self.max_set_back_ns:
            yield (
                "clock.max_set_back",
                format_exact_duration(self.max_set_back_ns),
                f"99.9 % of timestamps fall by no more than {format_short(self.fall_ns)}",
            )

    def settings(self) -> Iterator[tuple[str, str, str]]:
        """Yield the key, value and reason of the settings that have a reason."""
        if self.tried is not None:
            yield "correct_for", format_exact_duration(self.correct_for_ns), self.why_correct_for()
        yield from (each for each in self.all_settings() if each[2])

    def why_correct_for(self) -> str:
        """Return the reason of the allowed lateness; it is empty if the engine was not run."""
        if self.tried is None:
            return ""
        least_ns, wrong, left = self.tried
        if not wrong:
            return "no window is wrong after corrections"
        words = f"windows wrong after corrections: {left:,}"
        if left < wrong:
            words += f" (with {format_exact_duration(least_ns)}: {wrong:,})"
        if left:
            words += f"; {format_exact_duration(STEPS_NS[-1])} leaves as many"
        return words


def advise(
    counting: Counting, clocks: dict[str, JudgedClock], corrected: Mended | None = None
) -> Advice:
    """Return the advice that follows from the counts and from the judgments of the clocks.

    The waits follow from `corrected`, the figures without wrong clocks. It is None if no clock is
    wrong.

    If rows have arrivals, the wait for a source covers the delays of its own late records.
    Otherwise it covers how far records were behind the newest record of all sources.
    """
    shown = counting if corrected is None else corrected
    waited = chain(counting.gaps.filled_after_ns, shown.behind_own_ns)
    waited_ns = nearest_rank(sort_values(waited), NEARLY_ALL)
    late_ns = waited_ns
    if not counting.arrives:
        of_machines = (machine.late_ns for machine in counting.machines.values())
        late_ns = max(
            waited_ns, nearest_rank(sort_values(chain.from_iterable(of_machines)), NEARLY_ALL)
        )
    silences = sort_values(machine.longest_silence_ns for machine in counting.machines.values())
    silence_ns = nearest_rank(silences, MOST_SILENCES)
    wrong = sum(clock.is_wrong for clock in clocks.values())
    jumped = sum(each.jumps.jumps(counting.last_ns) > 0 for each in counting.machines.values())
    behind_ns = shown.newcomer_behind_ns
    fall_ns = _usual_fall_ns(counting, clocks)
    correct_ns = step(max(LEAST_CORRECT_NS, ROOM * max(late_ns, behind_ns, fall_ns)))
    unnumbered = sum(not machine.numbered for machine in counting.machines.values())
    return Advice(
        counting.numbered,
        0 if counting.without_number else unnumbered,
        step(waited_ns * ROOM),
        step(late_ns * ROOM),
        step(max(LEAST_IDLE_NS, silence_ns * ROOM)),
        min(correct_ns, step(max(late_ns * ROOM, behind_ns * ROOM))),
        correct_ns,
        wrong,
        jumped,
        waited_ns,
        silence_ns,
        counting.wraps.range if counting.numbered else None,
        step(fall_ns * ROOM) if fall_ns else 0,
        fall_ns,
    )


def _usual_fall_ns(counting: Counting, clocks: dict[str, JudgedClock]) -> int:
    """Return how far all records but one in a thousand are set back at most.

    The records of wrong clocks do not count, because it is the clock that is set back.
    """
    falls: list[int] = []
    for machine in counting.machines.values():
        clock = clocks.get(machine.name)
        is_wrong = machine.jumps.jumps(counting.last_ns) if clock is None else clock.is_wrong
        if not is_wrong:
            falls += machine.set_back_ns
    falls.sort(reverse=True)
    beyond = counting.rows // 1_000
    return falls[beyond] if len(falls) > beyond else 0


def step(amount_ns: float) -> int:
    """Return the smallest of `STEPS_NS` that is at least the amount, or the largest if none is."""
    return next((step for step in STEPS_NS if step >= amount_ns), STEPS_NS[-1])


def format_exact_duration(amount_ns: int) -> str:
    """Return the duration as a topology file spells it."""
    units = (("h", H), ("min", MIN), ("s", S), ("ms", MS), ("us", 1_000), ("ns", 1))
    for unit, size_ns in units:
        if amount_ns % size_ns == 0 and amount_ns:
            return f"{amount_ns // size_ns}{unit}"
    return "0s"
