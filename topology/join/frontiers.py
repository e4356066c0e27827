"""Up to where the streams of a join have come: one frontier each, and what follows for its sides.

`goal_ns(side)`: what comes later on the streams that the side's rows wait for lies at that
instant or after it. The first side waits for all others, another for the first alone: its only
row with nulls is that it has no first. `final_ns(side)`: nor will anything come before that
instant. `released_ns`: on none of the streams, so that what ends before it can be forgotten.

A join that began amid its streams has not seen what came before (`topology.query.beginning`), of
each stream up to an instant of its own. `since_ns(side)`: nothing that the side's rows wait for
lies at or after it and was not seen.

With quality one target follows the sources of all streams (topology.answer.quality_target): what it
closes is closed on each stream. A row that awaits partners of one stream may thus
wait for a source of another; in turn nothing is to be divided among streams that share one target.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from topology.answer.frontier import FOR_EVER, FRONTIER, NOT_YET, Frontier
from topology.answer.quality_target import PERHAPS_TARGET, TARGET, QualityTarget
from topology.answer.settings import QualityConfig
from topology.join.settings import INTERVAL, JoinSettings
from topology.model.event import BYE, HEARTBEAT, PASSED, WATERMARK, Event
from topology.model.kept import FLAG, TEXT, Kept, Parts, Shape, list_of
from topology.model.operator import NEVER
from topology.query.beginning import ALWAYS, QueryBeginning

FRONTIERS: Final = Shape("join.frontiers", 1, _all=Parts(FRONTIER), target=PERHAPS_TARGET)
SHARED_TARGET: Final = TARGET.with_more("join.target", 1, _unheard=list_of(TEXT), _is_new=FLAG)
BETWEEN: Final = "\n"
"""Stream and source: no stream's name holds one."""


class SharedTarget(QualityTarget):
    """Sources of one name are others on another stream. A stream of which nothing has come
    counts as a source that is behind all events, until it sends or is idle."""

    SHAPE = SHARED_TARGET

    def __init__(
        self, quality: QualityConfig, streams: Iterable[str], *, reach_ns: int, heeds_errors: bool
    ) -> None:
        super().__init__(quality, reach_ns=reach_ns, heeds_errors=heeds_errors)
        self._unheard = sorted(set(streams))
        self._is_new = True

    def _look_at(self, event: Event) -> None:
        if event.stream in self._unheard:
            self._meet(event)
        super()._look_at(event)
        self._heard.source = f"{event.stream}{BETWEEN}{event.source}"

    def _meet(self, event: Event) -> None:
        self._unheard.remove(event.stream)
        if not self._is_new:
            self.policy.leave(event.stream, event.at_ns)
            return
        self._is_new = False
        super()._look_at(event)
        self._heard.ref_time_ns -= 1
        for stream in self._unheard:
            self._heard.source = stream
            self.policy.observe(self._heard, event.at_ns)


class Frontiers(Kept):
    """`target`: None without quality. `beginnings` by stream."""

    SHAPE = FRONTIERS

    def __init__(
        self,
        query: JoinSettings,
        target: SharedTarget | None,
        beginnings: Mapping[str, QueryBeginning],
        *,
        ordered: bool,
    ) -> None:
        self._query = query
        self._ordered = ordered
        self._streams = query.streams
        self._of_stream = {
            stream: Frontier(
                query.changes_for_ns,
                query.new_source_allowance_ns,
                heeds_errors=query.heeds_errors,
                answer=query.answer,
                target=target,
                ordered=ordered,
            )
            for stream in self._streams
        }
        self._beginnings = beginnings
        self._look_at_all()
        self._goal_ns = [NOT_YET, NOT_YET]
        self._final_ns = [NOT_YET, NOT_YET]
        self._proven_ns = [FOR_EVER, FOR_EVER]
        self.released_ns = NOT_YET
        self.target = target

    def _look_at_all(self) -> None:
        self._all = list(self._of_stream.values())
        others = [self._of_stream[stream] for stream in dict.fromkeys(self._streams[1:])]
        self._waits = others, [self._of_stream[self._streams[0]]]
        """Frontiers that the first side's rows wait for, and those of any other."""

    def of(self, stream: str) -> Frontier | None:
        return self._of_stream.get(stream)

    def hear(self, event: Event, frontier: Frontier, *, is_taken: bool) -> None:
        """A data event of the frontier's stream; the query takes it, or leaves it out."""
        if self._ordered and not event.late:
            frontier.hear(event)
        if self.target is None:
            return
        if is_taken:
            self.target.hear(event, speaks=not event.late)
        elif not event.late:
            self.target.hear_of(event)

    def heed(self, event: Event, frontier: Frontier) -> bool:
        """A control event; False if nothing follows from it."""
        if event.kind == WATERMARK:
            frontier.announce(event)
            return True
        if event.kind == PASSED:
            frontier.hear(event)
            return True
        if self.target is None or event.kind not in (HEARTBEAT, BYE):
            return False
        self.target.hear_of(event)
        return True

    @property
    def is_waiting(self) -> bool:
        """The target has something to close."""
        return self.target is not None and self.target.is_waiting

    def after(self, watermarks: Iterable[Event]) -> Frontiers:
        """As they would stand if these came; without the target."""
        other = Frontiers(self._query, None, self._beginnings, ordered=self._ordered)
        other._of_stream = {
            stream: frontier.after([event for event in watermarks if event.stream == stream])
            for stream, frontier in self._of_stream.items()
        }
        other._look_at_all()
        other._sum_up()
        return other

    def settle(self, now_ns: int) -> None:
        target = self.target
        if target is not None:
            passed_ns = min(frontier.passed_ns for frontier in self._all)
            target.settle(now_ns, passed_ns if self._ordered else NOT_YET)
        for frontier in self._all:
            frontier.settle()
        self._sum_up()

    def make_room(self) -> None:
        """That for newcomers is given up."""
        for frontier in self._all:
            frontier.crowd()
        self._sum_up()

    def due_ns(self) -> int:
        """When to settle though nothing arrives."""
        return NEVER if self.target is None else self.target.due_ns()

    def seal(self) -> None:
        """See `Frontier`."""
        for frontier in self._all:
            frontier.seal()
        for at, waits in enumerate(self._waits):
            self._proven_ns[at] = min([frontier.proven_ns for frontier in waits])

    def end(self, now_ns: int) -> None:
        if self.target is not None:
            self.target.end(now_ns)
        for frontier in self._all:
            frontier.end()
        self._sum_up()

    def _sum_up(self) -> None:
        for at, waits in enumerate(self._waits):
            self._goal_ns[at] = min([frontier.goal_ns for frontier in waits])
            self._final_ns[at] = min([frontier.final_ns for frontier in waits])
        self.released_ns = min([frontier.final_ns for frontier in self._all])

    def goal_ns(self, side: int) -> int:
        return self._goal_ns[side > 0]

    def final_ns(self, side: int) -> int:
        return self._final_ns[side > 0]

    def proven_ns(self, side: int) -> int:
        return self._proven_ns[side > 0]

    def since_ns(self, side: int) -> int:
        streams = self._streams[1:] if side == 0 else self._streams[:1]
        return max([self._beginnings[stream].since_ns for stream in streams])

    @property
    def are_whole(self) -> bool:
        """The join was there from the first event on."""
        return self._beginnings[self._streams[0]].since_ns == ALWAYS

    def came_before(self, event: Event) -> bool:
        """Whether a late event is of the time before the join began: it may be one that would have
        been final by then."""
        since_ns = self._beginnings[event.stream].since_ns
        return event.ref_time_ns + event.error_ns < since_ns

    def is_sure(self, side: int, end_ns: int) -> bool:
        """Nothing more comes for the side's rows that end there, and nothing is missing."""
        return all(
            frontier.goal_ns >= end_ns and not frontier.is_incomplete(end_ns)
            for frontier in self._waits[side > 0]
        )

    def explain(self) -> dict[str, Any]:
        """By stream, None where nothing is known yet."""
        known: dict[str, Any] = {
            "closed": {name: _known(each.goal_ns) for name, each in self._of_stream.items()},
            "final": {name: _known(each.final_ns) for name, each in self._of_stream.items()},
        }
        return known if self.target is None else {**known, "quality": self.target.explain()}

    def settled(self) -> None:
        self._sum_up()


def _known(time_ns: int) -> int | None:
    return time_ns if -NEVER < time_ns < NEVER else None


def target_of(query: JoinSettings) -> SharedTarget | None:
    """Time is cut into pieces: an event makes those count that it may have partners in."""
    if query.quality is None:
        return None
    condition = query.condition
    reach_ns = condition.size_ns
    if condition.kind == INTERVAL:
        reach_ns = max(0, condition.high_ns, -condition.low_ns)
    return SharedTarget(
        query.quality, query.streams, reach_ns=reach_ns, heeds_errors=query.heeds_errors
    )
