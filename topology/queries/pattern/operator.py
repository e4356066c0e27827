"""Finds the matches of a stream's pattern queries: PATTERN, an operator of the chain.

Events and control events pass unchanged, and matches go into `Step.results`. The engine's frontier
is the instant before which no further event is expected. It follows the watermarks: before the
completeness frontier only new sources can still send events. The new-source allowance covers these
(`topology.answer.frontier`). The engine stops waiting for events that are more than
`correct_for_ns` older than the watermark. After MERGE, an event that is too late for a query has
already been reported as late, so it is only counted here (`figures`).

With EMIT FINAL, a match that ends in a negated gap is emitted when all known sources have sent
events after the gap. It is retracted if a new source sends an event that the gap forbids. With EMIT
EAGER it is emitted when the watermark, less the time errors, has passed the gap, as windows are.
That happens even while all sources are idle.

If the queries read events as MERGE accepts them (`topology.stage.accepted`), events arrive in any
order and are matched at once. The frontier then follows the control events sent with them.

If the store is nearly full, a watermark ends the new-source allowance (`given_up`), which leaves
room for events of known sources.

A query with `answer: final` emits a match when the frontier has passed every instant at which an
event could change the match. A query with `quality` emits a match when the match is unlikely enough
to change, and still corrects it afterwards. The quality target (`topology.answer.quality_target`)
gives the instant up to which decided matches may be emitted. After every instant, the operator
passes that time to the engine. Patterns have no windows that are known beforehand, so the quality
target counts pieces of time instead.

Queries count matches that start after the query was added, judged by the newest event that the
engine has seen. If the operator is restored without its own state, it has missed earlier events. It
then ignores all events until the missed ones are certainly in the past
(`topology.answer.query.beginning`).

The state contains the emitted results that are not yet final. The events themselves stay in the
log. The operator keeps an event while it still needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from topology.answer.frontier import FRONTIER, NOT_YET, Frontier
from topology.answer.quality_target import QualityTarget, target_figures
from topology.answer.query.beginning import BEGINNINGS, QueryBeginning, begin_midstream
from topology.answer.query.queries import combine_figures
from topology.answer.rules import FINAL
from topology.base.event import BYE, DATA, HEARTBEAT, PASSED, WATERMARK, Event
from topology.base.meter import Meter
from topology.base.operator import NEVER, Changes, Figure, Figures, Plain, State, total
from topology.base.outcome import Step
from topology.base.payload import UNREADABLE, Payloads
from topology.base.ramp import is_ramp, iter_due_beats, iter_pieces
from topology.queries.pattern.run.admit import (
    CONFLICT,
    DUPLICATE,
    EXPIRED,
    FAR,
    IRRELEVANT,
    MAX_TYPES,
    REFUSED,
    STORED,
    UNSURE,
)
from topology.queries.pattern.run.engine import Engine
from topology.queries.pattern.run.run import BEFORE_ALL_TIME
from topology.queries.pattern.settings import PatternQuery
from topology.queries.pattern.store.entry import Entry
from topology.queries.pattern.targets import SAVED_TARGETS
from topology.state.instant import InstantOperator
from topology.state.saved import FLAG, INT, Shape
from topology.state.tables import SavedState

TARGETS: Final = "promises"
"""The key, beside the engine's keys, of the state of the frontier and of the quality targets."""
PATTERN: Final = Shape(
    "pattern",
    1,
    _now_ns=INT,
    _instant_open=FLAG,
    _frontier=FRONTIER,
    _targets=SAVED_TARGETS,
    beginnings=BEGINNINGS,
)

FIGURES: Final[Mapping[str, Figure]] = {
    "retained": Figure("Events and read matches stored because a match may still need them"),
    "irrelevant": total("Events that no query uses"),
    "late": total("Events older than the final results"),
    "refused": total("Events left out because a bound was reached"),
    "given_up": total("Watermarks at which a full store ended the allowance for new sources"),
    "duplicates": total("Events seen before"),
    "conflicts": total("Duplicates with another content"),
    "error_too_large": total("Events left out because their time error exceeds an hour"),
    "out_of_range": total("Events left out because their time exceeds the range of every query"),
    "without_key": total("Events without a value for the partition key of a query"),
    "unreadable": total("Payloads that are not JSON"),
    **target_figures("first results"),
}
"""The figures of PATTERN and their help texts, in the order of the metrics."""


class Pattern(InstantOperator):
    """The operator that matches the pattern queries of one stream.

    Attributes:
        beginnings: The instant from which the queries count matches, as a list of one.

    Args:
        engine: The engine that runs the queries.
        queries: The settings of each query, by the query's name.
        ordered: Whether events arrive as MERGE emits them; otherwise as MERGE accepts them.
        announced: Whether watermarks arrive.
        payloads: The payloads that the queries share with others; by default they read their own.
    """

    keeps_passed = True

    def __init__(
        self,
        engine: Engine,
        queries: Mapping[str, PatternQuery],
        *,
        ordered: bool = True,
        announced: bool = True,
        payloads: Payloads | None = None,
    ) -> None:
        super().__init__()
        self._payloads = payloads or Payloads()
        self._payloads.register_paths(None)
        one = next(iter(queries.values()))
        self._targets = {
            name: QualityTarget(query.quality, reach_ns=engine.compiled[name].reach_ns)
            for name, query in queries.items()
            if query.answer != FINAL and query.quality is not None
        }
        only_final = [name for name, query in queries.items() if query.answer == FINAL]
        self._engine = engine
        self._frontier = Frontier(one)
        self._is_ordered = ordered
        self._beginning = QueryBeginning(
            ordered=ordered, announced=announced, max_ahead_ns=one.clock.max_ahead_ns
        )
        self.beginnings = [self._beginning]
        self._saved = SavedState(TARGETS, PATTERN)
        waiting = dict.fromkeys((*self._targets, *only_final))
        self._emitted_when_received = [
            name for name in engine.emitted_when_received if name not in waiting
        ]
        """The queries that emit a result when all known sources have sent events after its end."""
        for name in (*waiting, *self._emitted_when_received):
            engine.raise_target(name, BEFORE_ALL_TIME, 0)
        self._play = one.clock.play
        # The answers of `asks_for` by event type; at most MAX_TYPES.
        self._asked: dict[str, bool] = {}
        self._unreadable = 0
        self._given_up = 0

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        step = Step(now_ns, list(events))
        if self._engine.is_plain and not self._targets and not self._beginning.is_unknown:
            self._take_all(events, now_ns, step)
            return step
        for piece, until_ns in iter_pieces(events, now_ns, self._is_due):
            part = super().on_batch(piece, until_ns)
            step.add_outcomes(part)
        return step

    def _take_all(self, events: Sequence[Event], now_ns: int, step: Step) -> None:
        """Process the events in one pass: no query waits, so an instant's end needs no work."""
        last_ns, is_open = self._now_ns, self._instant_open
        for event in events:
            if event.at_ns > last_ns:
                last_ns, is_open = event.at_ns, False
            if event.kind == DATA:
                word = self._pass_to_engine(event)
                if word == STORED:
                    step.kept.append(event)
                    is_open = True
                elif not event.late:
                    is_open = True
            else:
                self._instant_open = is_open
                for beat in (
                    iter_due_beats([event], self._is_due) if is_ramp(event) else ((event,),)
                ):
                    self._take(beat[0], step)
                is_open = self._instant_open
        self._now_ns, self._instant_open = last_ns, is_open
        if now_ns > last_ns:
            self._now_ns, self._instant_open = now_ns, False
        self._finish(step)

    def _take(self, event: Event, step: Step) -> None:
        if self._beginning.is_unknown and not self._find_beginning(event):
            return
        if event.kind == DATA:
            self._accept(event, step)
        elif event.kind == WATERMARK:
            self._frontier.announce(event)
            self._engine.advance(self._choose_frontier_ns(), event.at_ns)
            self._engine.advance_clock(self._frontier.passed_ns, event.at_ns)
            for name in self._emitted_when_received:
                self._engine.raise_target(name, self._frontier.decided_by_known_ns, event.at_ns)
            self._instant_open = True
        elif event.kind == PASSED:
            self._frontier.observe(event)
            self._instant_open = True
        elif event.kind in (HEARTBEAT, BYE):
            self._observe_other(event)

    def _find_beginning(self, event: Event) -> bool:
        """Derive from the event, if possible, the instant after which matches are reported.

        Pass the instant to the engine, and return whether it is now known.
        """
        self._beginning.observe(event)
        self._exclude_missed(max(event.error_ns, event.error_all_ns))
        return not self._beginning.is_unknown

    def _exclude_missed(self, error_ns: int) -> None:
        """Exclude matches that may depend on missed events, if the instant is known.

        An event may have happened earlier by its error, up to `error_ns`. So a match that starts
        with it may depend on events that were missed.
        """
        beginning = self._beginning
        if beginning.is_midstream and not beginning.is_unknown:
            self._engine.begin_after(beginning.since_ns - 1 + error_ns)

    def _is_due(self, watermarks: Sequence[Event]) -> bool:
        if self._beginning.is_unknown or any(each.is_waiting for each in self._targets.values()):
            return True
        after = self._frontier.after(watermarks)
        decided_ns = after.decided_by_known_ns if self._engine.is_crowded else after.decided_ns
        heard_ns = after.decided_by_known_ns if self._emitted_when_received else decided_ns
        return self._engine.is_due(decided_ns, heard_ns, after.passed_ns)

    def _choose_frontier_ns(self) -> int:
        """Return the frontier; if the store is nearly full, without the new-source allowance.

        This leaves room in the store for events of known sources.
        """
        if not self._engine.is_crowded:
            return self._frontier.decided_ns
        self._given_up += 1
        return self._frontier.decided_by_known_ns

    def _accept(self, event: Event, step: Step) -> None:
        if self._pass_to_engine(event) == STORED:
            step.kept.append(event)
            self._instant_open = True
            margin_ns = 2 * self._engine.margin_ns
            for target in self._targets.values():
                target.observe(event, speaks=not event.late, margin_ns=margin_ns)
        elif not event.late:
            self._observe_other(event)

    def _pass_to_engine(self, event: Event) -> str:
        """Pass the event to the engine, and return its outcome, one of `admit.WORDS`."""
        engine = self._engine
        if self._is_ordered and not event.late:
            self._frontier.observe(event)
        asks = self._asked.get(event.type)
        if asks is None:
            asks = self._is_type_used(event.type)
        if not asks:  # This check comes first, even before the payload is decoded.
            return engine.accept_unused(event)
        return engine.accept(Entry(event, self._payload_of(event), self._play), event.at_ns)

    def _payload_of(self, event: Event) -> Any:
        payload = self._payloads.of(event)
        if payload is UNREADABLE:
            self._unreadable += 1
            return None
        return payload

    def _is_type_used(self, type_: str) -> bool:
        asks = self._engine.uses_type(type_)
        if len(self._asked) < MAX_TYPES:
            self._asked[type_] = asks
        return asks

    def _observe_other(self, event: Event) -> None:
        """Record an event that no query uses, because it shows its source's progress."""
        self._instant_open = True
        for target in self._targets.values():
            target.observe_other(event)

    # -- queries that wait -------------------------------------------------------------------------

    def _decide(self, step: Step) -> None:
        """Settle the quality targets, and let their queries emit up to them.

        Without quality targets there is nothing to do, because every match has already been
        emitted.
        """
        if not self._targets:
            return
        now_ns = self._now_ns
        # First emit the corrections that were due before this instant.
        self._engine.on_time(now_ns)
        passed_ns = self._frontier.passed_ns if self._is_ordered else NOT_YET
        for name, target in self._targets.items():
            target.settle(now_ns, passed_ns)
            self._engine.raise_target(name, target.closed_ns, now_ns)

    def _next_due_ns(self) -> int:
        return min([target.due_ns() for target in self._targets.values()], default=NEVER)

    # -- the rest of the contract ------------------------------------------------------------------

    def on_time(self, now_ns: int) -> Step:
        step = super().on_time(now_ns)
        self._engine.on_time(now_ns)
        self._finish(step)
        return step

    def next_deadline_ns(self) -> int | None:
        engine_ns = self._engine.next_deadline_ns()
        if not self._targets:
            return engine_ns
        due_ns = super().next_deadline_ns()
        return min((ns for ns in (due_ns, engine_ns) if ns is not None), default=None)

    def seal(self) -> None:
        self._engine.seal(self._frontier.watermark_ns)

    def on_end(self, now_ns: int) -> Step:
        step = self._begin((), now_ns)
        self._pass_time(now_ns + 1, step)
        self._now_ns = now_ns
        for target in self._targets.values():
            target.end(now_ns)
        self._engine.end(now_ns)
        self._finish(step)
        return step

    def _finish(self, step: Step) -> None:
        self._engine.flush(step)

    def snapshot(self) -> State:
        return self._engine.snapshot() | super().snapshot()

    def changes(self) -> Changes:
        return self._engine.changes() | super().changes()

    def iter_held(self) -> Iterable[Event]:
        return (entry.event for entry in self._engine.entries())

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        if not self._saved.is_in(state):
            begin_midstream(self.beginnings)
        rest: State = {}
        yield from self._saved.restoring(self, state, rest)
        entries = [Entry(event, self._payload_of(event), self._play) for event in held]
        self._engine.restore(rest, entries)
        yield len(held)

    def begin_late(self, since_ns: int, error_ns: int) -> None:
        if self._beginning.is_unknown:
            self._beginning.begin_if_unknown(since_ns)
            self._exclude_missed(error_ns)

    def measure(self, meter: Meter) -> None:
        self._engine.measure(meter)

    def explain(self) -> dict[str, Any]:
        """Return the queries, their quality targets, their open time range and the figures.

        `open_since` is the instant from which results are not yet final.
        """
        engine = self._engine
        return {
            "queries": list(engine.compiled),
            "quality": {name: target.explain() for name, target in self._targets.items()},
            "open_since": engine.frontier_ns if engine.frontier_ns > BEFORE_ALL_TIME else None,
            "newest": engine.clock_ns if engine.clock_ns > BEFORE_ALL_TIME else None,
            **self.figures(),
        }

    def figures(self) -> Figures:
        counts = self._engine.counts
        return {
            "retained": self._engine.retained,
            "irrelevant": counts[IRRELEVANT],
            "late": counts[EXPIRED],
            "refused": counts[REFUSED] + self._engine.refused,
            "duplicates": counts[DUPLICATE],
            "conflicts": counts[CONFLICT],
            "error_too_large": counts[UNSURE],
            "out_of_range": counts[FAR],
            "without_key": self._engine.unpartitioned,
            "unreadable": self._unreadable,
            "given_up": self._given_up,
            **combine_figures(target.figures() for target in self._targets.values()),
        }
