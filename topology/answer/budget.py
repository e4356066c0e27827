"""BUDGET: the shortest wait behind the newest event whose price is granted.

Reading early costs what is read again when a late event comes. An event that comes `l` behind the
newest forces a second reading of everything that was read of the last `l`. So with a wait of w

    price(w) = sum over the late events of a span:  rate * max(0, l - w) * step * share

`rate` is items a second and `step` what one costs, both measured. `share` is how much of this is
truly read again (keys, convergence, several late events at once); it is measured, too, under the
wait that was kept. So the price of each wait is known before it is tried, and so is how busy the
processor is without any of it. The shortest wait is taken that fits into

    min(granted, FULL - first - others, allowed)

where `granted` is the user's share, `first` what the rest of the work takes, `others` what else the
processor does, as far as the driver reports it, and `allowed` what is left where several read ahead
(`shares`). The wait falls to a half in a span at most, and rises at once. Where even the whole wait
costs too much, the wait is whole: nothing is read again.

The price holds in the mean. `spending` bounds how far beyond W is read, so that it also holds in
each two seconds.

What is known of late events fades by a thirty-second in a span. Lateness is counted in the buckets
of `topology.model.histogram`, which grow by an eighth each, so a wait is right to as much.

The published control adapts its wait by trial instead (Reliable Speculative Processing, 4.4).

Cost: O(1) for an event, O(buckets) for a span. Memory: some hundred numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from topology.answer.spending import FULL_PPM, WHOLE, Load, Spending
from topology.answer.stability import Stability
from topology.model.histogram import bucket_of, upper_edge_ns
from topology.model.operator import NEVER, Plain

SPAN_NS: Final = 100_000_000
FADES: Final = 32
UNIT: Final = 1 << 10
"""What one late event counts for."""
BUCKETS: Final = 480
"""The buckets of `topology.model.histogram`: eight for each octave of nanoseconds."""
SMALL_NS: Final = 1_000_000
"""Below twice that a wait is set as it is wanted, and not by halves."""


class Budget:
    """`granted_ppm`: of a processor."""

    def __init__(self, granted_ppm: int, span_ns: int = SPAN_NS) -> None:
        self.granted_ppm = granted_ppm
        self.allowed_ppm = NEVER
        self.first_ppm = 0
        self.wanted_ppm = 0
        """What the shortest wait would cost."""
        self.others_ppm = 0
        self._late = [0] * BUCKETS
        self._spans = 0
        """Over how many spans, faded as they are, the late ones came; in units, too."""
        self._most = 0
        self._expected = 0
        self._came = 0
        self._wait_ns = -1
        self._span_ns = span_ns
        self.spending = Spending(granted_ppm, span_ns)
        self._least_stands_ppm = 0
        self._stability: Stability | None = None
        self._hits: dict[tuple[int, int], int] = {}
        self.most_steps = 0
        """A late one costs no more, as the detector takes it in by itself; 0: it does not."""
        self.price_ppm = 0
        """What is expected of the wait that is kept."""

    def be_stable(self, stands_ppm: int, stability: Stability) -> None:
        """No wait at which results stand less surely."""
        self._least_stands_ppm, self._stability = stands_ppm, stability

    @property
    def room_ppm(self) -> int:
        """What reading again may take."""
        idle_ppm = FULL_PPM - self.first_ppm - self.others_ppm
        return max(min(self.granted_ppm, idle_ppm, self.allowed_ppm), 0)

    def allow(self, allowed_ppm: int) -> None:
        """What is left for it where several read ahead (`shares`)."""
        self.allowed_ppm = allowed_ppm

    def hits_ppm(self, age_ns: int, ahead_ns: int) -> int:
        """How often late events are expected to come behind a result of that age; none of them
        further behind the clock than W is."""
        number, furthest = _bucket_of(age_ns), _bucket_of(ahead_ns)
        known = self._hits.get((number, furthest))
        if known is None:
            whole_ns = max(self._spans, UNIT) * self._span_ns
            hits = self._behind(upper_edge_ns(number), upper_edge_ns(furthest)) * WHOLE // whole_ns
            known = self._hits[number, furthest] = hits
        return known

    def wait_ns(self, ahead_ns: int) -> int:
        return max(self.chosen_ns(ahead_ns), ahead_ns - self.spending.reach_ns)

    def chosen_ns(self, ahead_ns: int) -> int:
        """The wait whose price fits, were it the mean alone."""
        return ahead_ns if self._wait_ns < 0 else min(self._wait_ns, ahead_ns)

    def note_late(self, late_ns: int) -> None:
        """How far behind the newest event the latest one of an instant came."""
        if late_ns <= 0:
            return
        number = _bucket_of(late_ns)
        self._late[number] += UNIT
        self._hits.clear()  # a chance follows from what is known, not from when it was asked
        self._most = max(self._most, number + 1)

    def observe(self, load: Load, ahead_ns: int) -> None:
        """As `weigh`, where nothing is known of the items."""
        self.weigh(load, ahead_ns, 0, 0)

    def weigh(
        self,
        load: Load,
        ahead_ns: int,
        items: int,
        again: int,
        *,
        rests: bool = False,
        is_kept: bool = True,
    ) -> None:
        """A span is over, in which so many items were read for the first time, and again. `rests`:
        where there were none the wait falls as if they cost nothing, for they are few. `is_kept`:
        the wait was, so that what was read again shows its price."""
        late = self._late
        self._spans += UNIT
        if load.span_ns > 0:
            self._span_ns = load.span_ns
            self.first_ppm = load.first_ns * WHOLE // load.span_ns
            self.wanted_ppm = 0
            self._hits.clear()
            self.spending.end(load.span_ns, load.first_ns, self.others_ppm)
        if load.span_ns > 0 and (items > 0 or rests):
            step_ns = load.first_ns // max(items, 1)
            if is_kept:
                kept_ns = self.chosen_ns(ahead_ns)
                expected = self._again(kept_ns, items, load.span_ns)
                self._expected += expected - self._expected // FADES
                self._came += UNIT * again - self._came // FADES
            room_ppm = self.room_ppm
            self._choose(ahead_ns, items, load.span_ns, step_ns, room_ppm)
        for number in range(self._most):
            late[number] -= -(-late[number] // FADES)
        self._spans -= -(-self._spans // FADES)
        while self._most and not late[self._most - 1]:
            self._most -= 1

    @property
    def share_ppm(self) -> int:
        """How much of what would be read again, were each late one alone, is."""
        if self._expected <= 0 or self._came >= self._expected:
            return WHOLE
        return max(self._came * WHOLE // self._expected, 1_000)

    def _choose(self, ahead_ns: int, items: int, span_ns: int, step_ns: int, room_ppm: int) -> None:
        candidates = [0, *(upper_edge_ns(n) for n in range(self._most) if self._late[n])]
        best_ns, best_ppm = NEVER, 0
        for wait_ns in candidates:
            again = self._again(wait_ns, items, span_ns) * self.share_ppm // WHOLE
            price_ppm = -(-again * step_ns * WHOLE // (span_ns * UNIT))
            if wait_ns == 0:
                self.wanted_ppm = price_ppm
            stability = self._stability
            if stability is not None and stability.of(wait_ns, NEVER) < self._least_stands_ppm:
                continue
            if price_ppm <= room_ppm:
                best_ns, best_ppm = wait_ns, price_ppm
                break
        before_ns = self.chosen_ns(ahead_ns)
        self._wait_ns = best_ns if before_ns < 2 * SMALL_NS else max(best_ns, before_ns // 2)
        self.price_ppm = best_ppm

    def _again(self, wait_ns: int, items: int, span_ns: int) -> int:
        """Items that would be read again in a span, were each late one alone; in units."""
        most_ns = self.most_steps * span_ns // items if self.most_steps and items else NEVER
        total_ns = self._behind(wait_ns, NEVER, most_ns)
        return UNIT * total_ns * items // (span_ns * max(self._spans, UNIT))

    def _behind(self, wait_ns: int, furthest_ns: int = NEVER, most_ns: int = NEVER) -> int:
        """How far the late ones came behind that, in all, each counted up to `most_ns`; in
        units."""
        total_ns = 0
        for number in range(self._most):
            if self._late[number]:
                behind_ns = min(upper_edge_ns(number), furthest_ns) - wait_ns
                if behind_ns > 0:
                    total_ns += self._late[number] * min(behind_ns, most_ns)
        return total_ns

    def snapshot(self) -> Plain:
        known = [self._spans, self._wait_ns, self._expected, self._came, self.price_ppm]
        since = [self._span_ns, self.spending.snapshot(), self.first_ppm, self.wanted_ppm]
        return [[*known, *since], self._late[: self._most]]

    def restore(self, plain: Plain) -> None:
        known, late = plain
        self._spans, self._wait_ns, self._expected, self._came, self.price_ppm, *since = known
        self._span_ns, spent, self.first_ppm, self.wanted_ppm = since
        self.spending.restore(spent)
        self._most = len(late)
        self._late = [*late, *([0] * (BUCKETS - len(late)))]


def _bucket_of(late_ns: int) -> int:
    return min(bucket_of(late_ns), BUCKETS - 1)


def share(budgets: Sequence[Budget], others_ppm: int) -> None:
    """Gives each what it may take in the span that begins: divides what a processor has left among
    the detectors of a stage that read ahead.

    Together they may be granted more than there is. What is left below `FULL_PPM` goes first to the
    queries that ask for least of what they are granted, for there a unit of work wins most time;
    the others share the rest in proportion to what they are granted. So no query waits because
    another asks for more than it can have, and together they leave the processor a reserve. The
    division follows from figures that are part of the state, in the instant in which all queries
    have weighed their span; the driver reports what else the processor does."""
    left_ppm = FULL_PPM - others_ppm - sum(each.first_ppm for each in budgets)
    weight = sum(each.granted_ppm for each in budgets)
    for each in sorted(budgets, key=_modesty):
        part_ppm = max(left_ppm, 0) * each.granted_ppm // weight
        each.allow(part_ppm)
        left_ppm -= min(part_ppm, each.wanted_ppm, each.granted_ppm)
        weight -= each.granted_ppm


def _modesty(budget: Budget) -> float:
    return budget.wanted_ppm / budget.granted_ppm
