"""Tracks the progress of a join's streams, with one frontier for each.

The rows of an event on the first side wait for all other streams. The row of an event on another
side waits for the first stream alone, because it only shows that the event has no partner there.

A side has two frontiers, which refer to the streams that its rows wait for:

* `goal_ns(side)`: rows that end at or before this instant may be emitted.
* `final_ns(side)`: no further event, not even a late one, is before this instant.

`released_ns`: no stream can bring an event before this instant any more. So entries that end before
it can be forgotten.

A join that began in the middle of its streams has not seen earlier events
(`topology.answer.query.beginning`). Each stream has its own beginning. `since_ns(side)`: the join
has seen all events at or after this instant that the side's rows wait for.

With a quality target, one target covers the sources of all streams
(`topology.answer.quality_target`). An instant that it closes is closed on each stream. So a row
that waits for partners of one stream may wait for a source of another. In return, the target need
not be divided among the streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from topology.answer.frontier import FRONTIER, Frontier
from topology.answer.progress import QueryProgress
from topology.answer.quality_target import PERHAPS_TARGET, TARGET, QualityTarget
from topology.answer.query.beginning import ALWAYS, QueryBeginning
from topology.answer.settings import QualityConfig
from topology.base.event import Event
from topology.base.operator import NEVER
from topology.queries.join.settings import JoinQuery
from topology.state.saved import FLAG, TEXT, Parts, Shape, list_of

FRONTIERS: Final = Shape("join.frontiers", 1, _all=Parts(FRONTIER), target=PERHAPS_TARGET)
SHARED_TARGET: Final = TARGET.with_more("join.target", 1, _unobserved=list_of(TEXT), _is_new=FLAG)
BETWEEN: Final = "\n"
"""The separator between the name of a stream, which never contains it, and a source's name."""


class SharedTarget(QualityTarget):
    """A quality target that all streams of a join share.

    Sources of the same name on different streams are different sources. A stream without any event
    counts as a source that is behind all events, until it sends or is idle.
    """

    SHAPE = SHARED_TARGET

    def __init__(
        self, quality: QualityConfig, streams: Iterable[str], *, reach_ns: int, heeds_errors: bool
    ) -> None:
        super().__init__(quality, reach_ns=reach_ns, heeds_errors=heeds_errors)
        self._unobserved = sorted(set(streams))
        self._is_new = True

    def _set_observed(self, event: Event) -> None:
        if event.stream in self._unobserved:
            self._observe_new_stream(event)
        super()._set_observed(event)
        self._observed.source = f"{event.stream}{BETWEEN}{event.source}"

    def _observe_new_stream(self, event: Event) -> None:
        self._unobserved.remove(event.stream)
        if not self._is_new:
            self.policy.note_end(event.stream, event.at_ns)
            return
        self._is_new = False
        super()._set_observed(event)
        self._observed.ref_time_ns -= 1
        for stream in self._unobserved:
            self._observed.source = stream
            self.policy.observe(self._observed, event.at_ns)


class Frontiers(QueryProgress):
    """The frontiers of a join; `of_stream` has one for each stream."""

    def __init__(
        self,
        streams: Sequence[str],
        of_stream: Mapping[str, Frontier],
        target: SharedTarget | None,
        *,
        ordered: bool,
    ) -> None:
        super().__init__([*of_stream.values()], target, ordered=ordered)
        self._streams = streams
        self.of_stream = of_stream
        others = [of_stream[stream] for stream in dict.fromkeys(streams[1:])]
        self._waits = others, [of_stream[streams[0]]]
        """The frontiers that rows of the first side wait for, and those that other rows wait for.
        """

    def after(self, watermarks: Sequence[Event]) -> Frontiers:
        """Return the frontiers after these watermarks, without the quality target.

        The frontiers of this object do not change.
        """
        of_stream = {
            stream: frontier.after([event for event in watermarks if event.stream == stream])
            for stream, frontier in self.of_stream.items()
        }
        return Frontiers(self._streams, of_stream, None, ordered=self._ordered)

    def make_room(self) -> None:
        """Give up the new-source allowance of each stream."""
        for frontier in self._all:
            frontier.waive_new_sources()

    def goal_ns(self, side: int) -> int:
        return min([frontier.goal_ns for frontier in self._waits[side > 0]])

    def final_ns(self, side: int) -> int:
        return min([frontier.final_ns for frontier in self._waits[side > 0]])

    def proven_ns(self, side: int) -> int:
        return min([frontier.proven_ns for frontier in self._waits[side > 0]])

    @property
    def released_ns(self) -> int:
        return min([frontier.final_ns for frontier in self._all])

    def since_ns(self, side: int) -> int:
        return max([frontier.beginning.since_ns for frontier in self._waits[side > 0]])

    @property
    def has_full_history(self) -> bool:
        """Whether the join has seen its streams from the first event on."""
        return self.beginnings[0].since_ns == ALWAYS

    def is_sure(self, side: int, end_ns: int) -> bool:
        """Return whether the rows of a side are complete if they end at `end_ns`.

        They are complete if no event that belongs to them follows, and none is missing.
        """
        for frontier in self._waits[side > 0]:
            if frontier.goal_ns < end_ns or frontier.is_incomplete(end_ns):
                return False
        return True

    def explain(self) -> dict[str, Any]:
        """Return the closed and the final instant of each stream; None if an instant is unknown."""
        return {
            "closed": {name: _known_or_none(each.goal_ns) for name, each in self.of_stream.items()},
            "final": {name: _known_or_none(each.final_ns) for name, each in self.of_stream.items()},
            **super().explain(),
        }


def _known_or_none(time_ns: int) -> int | None:
    return time_ns if -NEVER < time_ns < NEVER else None


def frontiers_of(query: JoinQuery, *, ordered: bool, announced: bool) -> Frontiers:
    """Return the frontiers of a new join.

    The largest `max_ahead_ns` of the clocks limits how far an event may be ahead of its arrival.
    """
    target = target_of(query)
    ahead_ns = max(clock.max_ahead_ns for clock in query.clocks)
    of_stream = {}
    for stream in query.streams:
        beginning = QueryBeginning(ordered=ordered, announced=announced, max_ahead_ns=ahead_ns)
        of_stream[stream] = Frontier(query, target, beginning, ordered=ordered)
    return Frontiers(query.streams, of_stream, target, ordered=ordered)


def target_of(query: JoinQuery) -> SharedTarget | None:
    """Return the quality target of a join, or None if it has none.

    The target divides time into pieces. An event counts for the pieces in which it may have
    partners.
    """
    if query.quality is None:
        return None
    condition = query.join
    reach_ns = max(condition.size_ns, condition.high_ns, -condition.low_ns)
    return SharedTarget(
        query.quality, query.streams, reach_ns=reach_ns, heeds_errors=query.uses_time_errors
    )
