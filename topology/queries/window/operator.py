"""Runs WINDOW: computes windows over the events of one stream, and corrects their results.

Events and control events pass through unchanged; results are added as `WindowResult`s. The kinds of
windows are tumbling and sliding (`spans`), session (`sessions`) and count (`counting`). A window
has one result for each key (`reading`).

A window is first emitted (`emit`, revision 0) when the frontier has passed its end (`frontier`). It
is emitted again (`update`) after each instant that changed it. It is final when nothing can change
it any more, or when `correct_for` has passed. Then its state is dropped, so the state grows with
open windows and late events, not with traffic. After the last correction the results equal those of
an in-order run, for every order of arrival within `correct_for`.

`finals: true` emits a result once more when it becomes final. `early` emits open windows that have
changed, at multiples of its interval on the arrival clock. A window without events has no result,
unless the query asks for it (`empty`).
With `quality` a window is emitted as soon as a quality target allows it
(`topology.answer.quality_target`).

The operator reads ordered events from MERGE. Alternatively it reads accepted events
(`topology.stage.accepted`) in order of arrival, with control events that show MERGE's progress.
Either way MERGE decides which results are certain and final. A quality target may close a window
before MERGE does. Over accepted events, a query with a quality target does not close windows at W.

Results are emitted when an instant is over, in the order of window start and key, and carry that
instant. `on_end` closes all windows, in the same order, as final.

A query counts everything that it leaves out. These are events that do not meet its condition
(`filtered`) and events without a key (`without_key`). There are also values that an aggregate
cannot use (`skipped`), and payloads that cannot be read (`unreadable`). `field_uses` has the values
by field and kind. The query also counts events that arrive after their window is final (`expired`).
The bounds in the settings refuse events (`refused`) or make windows final early (`given_up`). All
these events still pass through, so the operators before this one account for them.

Most events only add to open windows. `run` finds runs of such events, which are processed in
batches.

Restore: the state is read back; no events are held. A query without a stored state begins in the
middle of the stream. It emits no windows that started earlier (`topology.answer.query.beginning`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from topology.answer.frontier import FRONTIER, Frontier
from topology.answer.progress import QueryProgress
from topology.answer.quality_target import QualityTarget
from topology.answer.query.beginning import BEGINNINGS, QueryBeginning
from topology.answer.query.queries import QueryOperator
from topology.base.event import DATA, Event
from topology.base.field_use import FieldUse
from topology.base.operator import NEVER, Changes, Figure, Figures, Plain, State, total
from topology.base.outcome import Step
from topology.base.payload import Payloads
from topology.queries.window.aggregates.custom import Function
from topology.queries.window.cells import Makers
from topology.queries.window.counting import Counting
from topology.queries.window.empty import FilledSpans
from topology.queries.window.kind import WindowKind
from topology.queries.window.reading import WindowReading
from topology.queries.window.results import WindowEmitter
from topology.queries.window.run import find_last_instant, find_plain_end, has_plain_case
from topology.queries.window.sessions import Sessions
from topology.queries.window.settings import COUNT, SESSION, SLIDING, TUMBLING, WindowQuery
from topology.queries.window.spans import Spans
from topology.state.saved import FLAG, INT, Shape
from topology.state.tables import SavedState

QUERY: Final = "query"
TARGET: Final = "promise"
OF_TARGET: Final = "target/"
"""State keys: that of the query, that of its quality target, and the prefix of the target's parts.
"""
KINDS: Final[Mapping[str, type[WindowKind]]] = {
    TUMBLING: Spans,
    SLIDING: Spans,
    SESSION: Sessions,
    COUNT: Counting,
}
WINDOWS: Final = Shape(
    "window",
    1,
    _now_ns=INT,
    _instant_open=FLAG,
    _early_due_ns=INT,
    _frontier=FRONTIER,
    beginnings=BEGINNINGS,
)

FIGURES: Final[Mapping[str, Figure]] = {
    "windows": Figure("Windows that are open or retained for corrections"),
    "not_final": Figure("Windows whose result is not final"),
    "keys": Figure("Keys with sessions, empty windows or values by time"),
    "retained": Figure("Events that count windows retain for corrections"),
    "emitted": total("First results, including those after a retraction"),
    "updated": total("Results that replaced an earlier result"),
    "retracted": total("Results that were retracted"),
    "expired": total("Events that arrived after their window was final"),
    "refused": total("Events left out because max_windows windows existed"),
    "given_up": total("Windows made final early because of max_windows"),
    "target_ppm": Figure("Share of first results that should be right, strictest query"),
    "achieved_ppm": Figure("Share of first results that were right, worst query"),
    "wait_mean_ns": Figure("Mean time between the end of a window and its result, slowest query"),
    "wait_max_ns": Figure("Longest time between the end of a window and its result"),
    "late_ppm": Figure("Share of events that arrived after the result of one of their windows"),
    "missed": total("Windows under a quality target that missed an event"),
    "missed_outside_target": total("Windows outside every quality target that missed an event"),
    "without_key": total("Events without a value for the key of a query"),
    "filtered": total("Events that do not meet the condition of a query"),
    "skipped": total("Values that an aggregate left out: absent, null, or of a kind it cannot use"),
    "failed": total("Exceptions that a user's aggregate raised"),
    "unreadable": total("Payloads that are not JSON"),
}
"""The meaning of WINDOW's figures, in the order of the metrics."""


def target_of(query: WindowQuery) -> QualityTarget | None:
    """Return the quality target of the query, or None if it has none.

    For sessions, count windows and windows of local time, the target counts pieces of time in place
    of windows.
    """
    if query.quality is None:
        return None
    windows = query.window
    is_even = windows.kind != SESSION and not windows.is_local
    return QualityTarget(
        query.quality,
        size_ns=windows.size_ns,
        every_ns=windows.step_ns if is_even else 0,
        reach_ns=0 if is_even else windows.size_ns,
        heeds_errors=query.uses_time_errors,
        zone_ns=query.zone_ns,
    )


class Windows(QueryOperator):
    """A window query as an operator.

    Args:
        functions: The aggregates of the functions file, by name.
        functions_digest: A digest of their texts.
        ordered: Whether MERGE emits the events in order, so that each of them raises W. Otherwise
            control events raise W.
        announced: Whether the stream has watermarks.
        plain: Whether plain events (`run`) are processed in batches. The results are the same
            without this, but slower.
        payloads: The payloads that the query shares with others; by default it reads its own.
    """

    def __init__(
        self,
        stream: str,
        query: WindowQuery,
        *,
        functions: Mapping[str, Function] | None = None,
        functions_digest: str = "",
        ordered: bool = True,
        announced: bool = True,
        plain: bool = True,
        payloads: Payloads | None = None,
    ) -> None:
        super().__init__(query.name, query.fingerprint() + functions_digest.encode())
        self._early_ns = query.emits_every_ns
        self.is_ordered = ordered
        self._beginning = QueryBeginning(
            ordered=ordered,
            announced=announced,
            max_ahead_ns=query.clock.max_ahead_ns,
            margin_ns=query.zone_ns,
        )
        self._target = target_of(query)
        if self._target is not None:
            self._target.save_tables_apart()
        self._stale: Changes = {}
        self._frontier = Frontier(query, self._target, self._beginning, ordered=ordered)
        self._progress = QueryProgress([self._frontier], self._target, ordered=ordered)
        self.beginnings.extend(self._progress.beginnings)  # mypyc leaks one that is set twice.
        self._emitter = WindowEmitter(stream, query, self._frontier)
        makers = self._makers = Makers(
            [*query.outputs.values()], functions or {}, plain=plain and not query.where
        )
        self._reading = WindowReading(query, makers, payloads or Payloads())
        kind = FilledSpans if query.is_filled else KINDS[query.window.kind]
        self._windows = kind(query, makers, self._frontier, self._emitter)
        self._saved = SavedState(QUERY, WINDOWS, self._windows.tables)
        self._has_plain_case = plain and has_plain_case(query, ordered=ordered)
        self._heeds_errors = query.uses_time_errors
        self._early_due_ns = NEVER

    # -- Contract ----------------------------------------------------------------------------------

    def is_due(self, watermarks: Sequence[Event]) -> bool:
        return (
            self._beginning.is_unknown
            or self._progress.is_waiting
            or self._windows.is_due(self._frontier.after(watermarks))
        )

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        if not self._has_plain_case or self._beginning.is_unknown:
            return super().on_batch(events, now_ns)
        step = self._begin(events, now_ns)
        at = 0
        while at < len(events):
            event = events[at]
            if event.at_ns > self._now_ns:
                self._pass_time(event.at_ns, step)
            taken = self._take_run(events, at) if event.kind == DATA and not event.late else 0
            if taken == 0:
                self._take(event, step)
            at += taken or 1
        if now_ns > self._now_ns:
            self._pass_time(now_ns, step)
        self._finish(step)
        return step

    def seal(self) -> None:
        self._progress.seal()

    def on_end(self, now_ns: int) -> Step:
        step = self.on_time(now_ns)
        self._progress.end(now_ns)
        self._emitter.now_ns = self._now_ns
        self._windows.settle()
        self._early_due_ns = NEVER
        self._finish(step)
        return step

    def _take(self, event: Event, step: Step) -> None:
        if self._beginning.is_unknown:
            self._beginning.observe(event)
        if event.kind == DATA:
            self._add(event)
        elif not self._progress.observe_control(event, self._frontier):
            return
        self._instant_open = True

    def _take_run(self, events: Sequence[Event], begun: int) -> int:
        """Process the plain events (`run`) from the index `begun` on, and return their number.

        The instant of the last of them stays open.
        """
        spans, frontier = self._windows, self._frontier
        assert isinstance(spans, Spans)
        room = spans.room(events[begun].ref_time_ns)
        if room is None:
            return 0
        end = find_plain_end(events, begun, room, frontier, heeds_errors=self._heeds_errors)
        if end == begun:
            return 0
        last = find_last_instant(events, begun, end)
        if begun < last:
            self._add_plain(room.start_ns, events[begun:last])
            frontier.observe(events[last - 1])
            frontier.settle()
            spans.settle()
        self._add_plain(room.start_ns, events[last:end])
        frontier.observe(events[end - 1])
        self._now_ns = events[end - 1].at_ns
        self._instant_open = True
        return end - begun

    def _add_plain(self, slice_ns: int, events: Sequence[Event]) -> None:
        spans = self._windows
        if self._makers.is_tallied and isinstance(spans, Spans):
            spans.take(slice_ns, self._reading.columns(events))
            return
        for event in events:
            read = self._reading.read(event)
            if read is not None:
                spans.add(event, read[0], read[1])

    def _add(self, event: Event) -> None:
        self._emitter.now_ns = self._now_ns
        read = self._reading.read(event)
        if read is not None:
            self._windows.add(event, read[0], read[1])
        self._progress.observe(event, self._frontier, is_taken=read is not None)

    def _decide(self, step: Step) -> None:
        self._emitter.now_ns = self._now_ns
        self._update_windows(self._now_ns)
        if self._early_ns and self._windows.has_fresh and self._early_due_ns == NEVER:
            self._early_due_ns = -(-self._now_ns // self._early_ns) * self._early_ns

    def _fire(self, due_ns: int, step: Step) -> None:
        self._emitter.now_ns = self._now_ns
        if due_ns == self._early_due_ns:
            self._windows.emit_early()
            self._early_due_ns = NEVER
        else:
            self._update_windows(due_ns)

    def _next_due_ns(self) -> int:
        return min(self._early_due_ns, self._progress.due_ns())

    def _update_windows(self, now_ns: int) -> None:
        self._progress.settle(now_ns)
        self._windows.settle()

    def _finish(self, step: Step) -> None:
        self._emitter.flush(step)

    # -- Reporting ---------------------------------------------------------------------------------

    def figures(self) -> Figures:
        """Return the figures of the query.

        All counts from `expired` to `failed` and the numbers of emitted results only grow.
        """
        return {
            **self._windows.figures(),
            "unreadable": self._reading.unreadable,
            "without_key": self._reading.unkeyed,
            "filtered": self._reading.filtered,
            "skipped": self._reading.skipped,
            "failed": self._makers.failures[0],
            **self._emitter.figures(),
            **self._progress.figures(),
        }

    def field_uses(self) -> list[FieldUse]:
        return self._reading.list_uses()

    def explain(self) -> dict[str, Any]:
        return {**self.figures(), **self._progress.explain()}

    # -- State -------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        return super().snapshot() | self._dump_target(only_changed=False)

    def changes(self) -> Changes:
        stale, self._stale = self._stale, {}
        return stale | super().changes() | self._dump_target(only_changed=True)

    def _dump_target(self, *, only_changed: bool) -> Changes:
        target = self._target
        if target is None:
            return {}
        parts = target.parts(only_changed=only_changed)
        return {OF_TARGET + name: row for name, row in parts.items()} | {TARGET: target.dump()}

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        yield from super().restoring(state, held)
        self._windows.load()

    def _restore_others(self, others: State) -> None:
        if TARGET not in others:
            super()._restore_others(others)
            return
        target, dumped = self._target, others.pop(TARGET)
        super()._restore_others({name: None for name in others if not name.startswith(OF_TARGET)})
        if target is not None and target.load(dumped):
            target.load_parts({name[len(OF_TARGET) :]: row for name, row in others.items()})
        else:
            self._stale = dict.fromkeys((TARGET, *others))
