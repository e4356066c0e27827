"""REORDER: each source of one stream leaves in the order of its sequence numbers.

In-order traffic is never delayed; only what overtook waits, until the hole in front
of it is filled or its deadline passes. What one source does is in `topology.reorder.source`;
this file drives the lanes of one stream in one input partition: time, bounds, state.

Guarantees
* Per (source, epoch) the released numbers rise, except events marked late.
* Every number from the start on is released, declared lost, or below the ledger's
  memory; exactly one of these.
* No event waits longer than `max_wait` for a hole, plus once per epoch the start hold.

Bounds (all settings, reorder_drift_merge.md 8): events held per source (`max_held`)
and in all (`max_held_total`, `max_held_bytes`): the oldest hole of the fullest source
is declared, reason `overflow`. Sources (`max_sources`, `forget_after`): the longest
quiet one that holds nothing is forgotten and would start anew. Where every source
holds something, the table grows past `max_sources` only up to `max_held_total`.

Cost: O(1) for an event in order; O(log holes) otherwise; a bound reached costs
O(log sources). Memory: held events, about 1 kB per source, holes and lost ranges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Final

from topology.model.event import DATA, DEAD, Event
from topology.model.idle import Quiet
from topology.model.operator import NEVER, TURN, Changes, Figures, State, StepByStep
from topology.model.outcome import Step, dead_letter
from topology.reorder import source_state
from topology.reorder.published.thesis import PacedLane
from topology.reorder.sequence import UNSTARTED
from topology.reorder.settings import NumberSettings, Rule, Rules, Shared
from topology.reorder.source import Lane

NOW = "now"
POOL = "pool"
LANE = "lane/"
LOST = "lost/"

LANES: Final[Mapping[Rule, type[Lane]]] = {
    "miss": Lane,
    "fixed": Lane,
    "thesis": PacedLane,
    "rfc": PacedLane,
}
"""What a source is under each rule."""


class Reorder(StepByStep):
    """`position` is the place in the chain, from 1."""

    def __init__(self, stream: str, config: NumberSettings, position: int = 1) -> None:
        self.rules = Rules(stream, position, config)
        self._shared = Shared(self.rules)
        self._lanes: dict[str, Lane] = {}
        self._lane_of = LANES[config.rule]
        self._is_plain = not (
            self._lane_of.sees_all or self.rules.modulus or self.rules.ignore_epoch
        )
        self._max_held = config.max_held
        self._max_held_total = config.max_held_total
        self._max_held_bytes = config.max_held_bytes
        self._max_sources = config.max_sources
        self._forget_after_ns = config.forget_after_ns
        self._now_ns = 0
        self._told_ns = -1  # the time that `changes` gave last
        self._due: list[tuple[int, str]] = []  # (deadline or earlier, source): one per armed lane
        self._due_ns = NEVER
        self._quiet = Quiet()
        self._fullest: list[tuple[int, str]] | None = None  # (-fill, source) while near the bound
        self._by_bytes = False  # the fill of a source: its payload, or how many it holds
        self._dirty: list[Lane] = []
        self._gone: list[str] = []  # keys of the state
        self.forgotten = 0
        self.overflows = 0

    # -- the contract ------------------------------------------------------------------------------

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:  # noqa: C901
        # In one piece because it runs for every event.
        step = Step(now_ns)
        released = step.released
        lanes = self._lanes
        shared = self._shared
        quick = self._is_plain
        for event in events:
            at_ns = event.at_ns
            if at_ns > self._now_ns:
                if self._due_ns < at_ns:
                    self._fire(at_ns - 1, step)
                self._now_ns = at_ns
            lane = lanes.get(event.source)
            if lane is None:
                lane = self._new_lane(event)
            lane.last_arrival_ns = at_ns
            if not lane.dirty:
                lane.dirty = True
                self._dirty.append(lane)
            kind = event.kind
            if kind == DATA:
                lane.received += 1
            current = lane.current
            number = event.seq
            epoch = event.epoch
            if (
                not quick
                or number != current.hi + 1
                or (epoch != current.epoch and (epoch >= 0 or event.ts_ns <= lane.boundary_ns))
                or kind == DEAD
                or lane.later
            ):
                self._take(lane, event, step)
            elif number == current.next:
                # The plain case: in order, nothing waiting. `at_ns` is the arrival already.
                event.epoch = current.epoch
                current.next = number + 1
                current.hi = number
                current.last_ts_ns = event.ts_ns
                if kind == DATA:
                    lane.released += 1
                released.append(event)
            elif lane.blocked and current.next >= 0:
                # In order behind a hole: it waits with the others.
                lane.hold_next(event)
                if (
                    lane.held > self._max_held
                    or shared.held > self._max_held_total
                    or shared.held_bytes > self._max_held_bytes
                    or self._fullest is not None
                ):
                    self._bound(lane, at_ns, step)
                    self._arm(lane)
            else:
                self._take(lane, event, step)
        if self._due_ns < now_ns:
            self._fire(now_ns - 1, step)
        if now_ns > self._now_ns:
            self._now_ns = now_ns
        return step

    def on_time(self, now_ns: int) -> Step:
        step = Step(now_ns)
        if self._due_ns <= now_ns:
            self._fire(now_ns, step)
        self._now_ns = max(self._now_ns, now_ns)
        return step

    def next_deadline_ns(self) -> int | None:
        while self._due:
            due_ns, source = self._due[0]
            lane = self._lanes.get(source)
            if lane is not None and lane.armed_ns == due_ns:
                if lane.deadline_ns() == due_ns:
                    return due_ns
                lane.armed_ns = NEVER
                heappop(self._due)
                self._arm(lane)
            else:
                heappop(self._due)
        self._due_ns = NEVER
        return None

    def on_end(self, now_ns: int) -> Step:
        step = self.on_batch((), now_ns)
        for source in sorted(self._lanes):
            lane = self._lanes[source]
            if lane.held:
                self._mark(lane)
                lane.end(now_ns, step)
        return step

    # -- one event that is not the plain next one --------------------------------------------------

    def _take(self, lane: Lane, event: Event, step: Step) -> None:
        if self.rules.modulus and event.seq >= self.rules.modulus:
            self._refuse(lane, event, step)
            return
        if event.epoch >= 0 and self.rules.ignore_epoch:
            event.epoch = -1
        before = lane.held
        lane.take(event, step)
        if lane.held > before:
            self._bound(lane, event.at_ns, step)
        self._arm(lane)

    def _refuse(self, lane: Lane, event: Event, step: Step) -> None:
        if event.kind == DEAD:
            return
        lane.dead += event.kind == DATA
        detail = (
            f"number {event.seq} does not fit the stream's reorder.seq_bits"
            f" (largest {self.rules.modulus - 1}); raise seq_bits or mend the source"
        )
        step.reports.append(dead_letter(event, event.at_ns, "seq_range", detail))

    def _new_lane(self, event: Event) -> Lane:
        if not self._lanes:
            self._shared.blocking_until_ns = max(
                self._shared.blocking_until_ns, event.at_ns + self.rules.max_wait_ns
            )
        lane = self._lane_of(event.source, self._shared)
        if event.epoch > 0 and not self.rules.ignore_epoch:
            lane.current.epoch = event.epoch
        self._lanes[event.source] = lane
        self._quiet.note(event.source, event.at_ns)
        self._forget(event.source, event.at_ns - self._forget_after_ns)
        while len(self._lanes) > self._max_sources and self._forget(event.source, NEVER):
            pass
        return lane

    def _mark(self, lane: Lane) -> None:
        if not lane.dirty:
            lane.dirty = True
            self._dirty.append(lane)

    # -- time --------------------------------------------------------------------------------------

    def _arm(self, lane: Lane) -> None:
        """One entry per lane, never later than its deadline; a late one is not moved."""
        due_ns = lane.deadline_ns()
        if due_ns < lane.armed_ns:
            lane.armed_ns = due_ns
            heappush(self._due, (due_ns, lane.source))
            self._due_ns = self._due[0][0]

    def _fire(self, until_ns: int, step: Step) -> None:
        due = self._due
        while due and due[0][0] <= until_ns:
            due_ns, source = heappop(due)
            lane = self._lanes.get(source)
            if lane is None or lane.armed_ns != due_ns:
                continue
            lane.armed_ns = NEVER
            if lane.deadline_ns() <= due_ns:
                self._now_ns = max(self._now_ns, due_ns)
                self._mark(lane)
                lane.fire(self._now_ns, step)
            self._arm(lane)
        self._due_ns = due[0][0] if due else NEVER

    # -- bounds ------------------------------------------------------------------------------------

    def _bound(self, lane: Lane, now_ns: int, step: Step) -> None:
        while lane.held > self._max_held:
            self.overflows += 1
            lane.overflow(now_ns, step)
        if self._fullest is not None:
            heappush(self._fullest, (-self._fill(lane), lane.source))
        while self._over_total():
            by_bytes = self._shared.held <= self._max_held_total
            if by_bytes != self._by_bytes:
                self._by_bytes = by_bytes
                self._fullest = None
            fullest = self._fullest_lane()
            self._mark(fullest)
            self.overflows += 1
            fullest.overflow(now_ns, step)
            self._arm(fullest)
        if self._fullest is not None and self._well_below_total():
            self._fullest = None

    def _over_total(self) -> bool:
        shared = self._shared
        return shared.held > self._max_held_total or (
            shared.held_bytes > self._max_held_bytes and shared.held > 0
        )

    def _well_below_total(self) -> bool:
        shared = self._shared
        return (
            shared.held * 10 < self._max_held_total * 9
            and shared.held_bytes * 10 < self._max_held_bytes * 9
        )

    def _fullest_lane(self) -> Lane:
        """The lane that holds most by the bound that is reached. The heap exists only near
        the bound: an entry is pushed whenever a lane grows, and one that no longer tells the
        truth is put right when it comes up."""
        if self._fullest is None:
            self._fullest = [(-self._fill(lane), source) for source, lane in self._lanes.items()]
            heapify(self._fullest)
        while True:
            minus_fill, source = self._fullest[0]
            lane = self._lanes.get(source)
            fill = self._fill(lane) if lane is not None else 0
            if lane is not None and fill == -minus_fill:
                return lane
            heappop(self._fullest)
            if lane is not None and fill < -minus_fill:
                heappush(self._fullest, (-fill, source))

    def _fill(self, lane: Lane) -> int:
        return lane.held_bytes if self._by_bytes else lane.held

    def _forget(self, newcomer: str, before_ns: int) -> bool:
        """Forget the longest quiet source that holds nothing, if it was last heard before
        that time; several where some held events when their turn came."""
        longest = self._quiet.longest(self._lanes, newcomer, before_ns)
        if longest is None:
            return False
        lane = self._lanes.pop(longest)
        self._gone.append(LANE + longest)
        self._gone += [lost_key(page, longest) for page in source_state.written_pages(lane)]
        self.forgotten += 1
        return True

    # -- for people --------------------------------------------------------------------------------

    def figures(self) -> Figures:
        return {
            "sources": len(self._lanes),
            "held": self._shared.held,
            "held_bytes": self._shared.held_bytes,
            "overflows": self.overflows,
            "forgotten": self.forgotten,
        }

    def explain(self) -> dict[str, Any]:
        """Which sources wait, for which numbers, since when and until when."""
        return {
            **self.figures(),
            "waiting": [explained(lane) for _, lane in sorted(self._lanes.items()) if lane.held],
        }

    # -- state -------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        state: State = {
            LANE + source: source_state.snapshot(lane) for source, lane in self._lanes.items()
        }
        for source, lane in self._lanes.items():
            for page, ranges in source_state.lost_pages(lane).items():
                state[lost_key(page, source)] = ranges
        if state or self.forgotten:
            state[POOL] = self._pool()
        state[NOW] = self._now_ns
        return state

    def changes(self) -> Changes:
        changes: Changes = dict.fromkeys(self._gone)
        self._gone.clear()
        for lane in self._dirty:
            lane.dirty = False
            if self._lanes.get(lane.source) is lane:
                changes[LANE + lane.source] = source_state.snapshot(lane)
                for page, ranges in source_state.changed_pages(lane).items():
                    changes[lost_key(page, lane.source)] = ranges
        if self._dirty:
            self._dirty.clear()
            changes[POOL] = self._pool()
        if self._now_ns > self._told_ns:
            self._told_ns = self._now_ns
            changes[NOW] = self._now_ns
        return changes

    def _pool(self) -> Any:
        shared = self._shared
        return [shared.blocking_until_ns, self.forgotten, shared.times.snapshot()]

    def held(self) -> Iterable[Event]:
        for lane in self._lanes.values():
            for sequence in [lane.current, *lane.later]:
                yield from sequence.held.values()
                yield from sequence.suspects

    def restoring(self, state: Mapping[str, Any], held: Iterable[Event]) -> Iterator[int]:
        """See `topology.model.operator`."""
        by_source: dict[str, dict[int, Event]] = {}
        for number, event in enumerate(held):
            by_source.setdefault(event.source, {})[event.offset] = event
            if not number % TURN:
                yield 0
        lost: dict[str, dict[int, dict[int, Any]]] = {}
        for key, value in state.items():
            if key.startswith(LOST):
                epoch, page, source = key[len(LOST) :].split("/", 2)
                lost.setdefault(source, {}).setdefault(int(epoch), {})[int(page)] = value
        for key, value in state.items():
            if key == NOW:
                self._now_ns = self._told_ns = value
            elif key == POOL:
                self._shared.blocking_until_ns, self.forgotten, times = value
                self._shared.times.restore(times)
            elif key.startswith(LANE):
                source = key[len(LANE) :]
                lane = self._lanes[source] = self._lane_of(source, self._shared)
                mine = by_source.get(source, {})
                source_state.restore(lane, value, lost.get(source, {}), mine)
                self._quiet.note(source, lane.last_arrival_ns)
                self._arm(lane)
                yield len(mine)


def lost_key(page: source_state.Page, source: str) -> str:
    return f"{LOST}{page[0]}/{page[1]}/{source}"


def explained(lane: Lane) -> dict[str, Any]:
    """For what the source waits, since when and until when."""
    current = lane.current
    hole = current.holes[0] if current.holes else None
    return {
        "source": lane.source,
        "epoch": current.epoch,
        "held": lane.held,
        "later_epochs": [sequence.epoch for sequence in lane.later],
        "reason": "start" if current.next == UNSTARTED else "hole" if hole else "jump",
        "missing": [hole.first, hole.last] if hole is not None else None,
        "since": hole.known_at_ns if hole is not None else lane.last_arrival_ns,
        "deadline": lane.deadline_ns(),
    }
