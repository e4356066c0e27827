"""DETECTOR: runs a detector (`detector`) over the events of a stream and results of other queries.

Events and control events pass unchanged, and results are emitted alongside as `DetectorResult`s.
The query's `answer` decides how far events are read, and so when results are emitted:

* `final`: up to the finality horizon (`topology.answer.frontier`), before which nothing can change
  any more.
* `early`: up to the watermark W, as MERGE emits events. Late events correct the results.
* `speculate`: events are read when MERGE accepts them, before it emits them. Reading goes up to the
  newest event time less a wait. `budget` chooses the wait, so that rollbacks take no more of a
  processor than is granted. The gain is the time that events wait in MERGE, less this wait.

After the last correction all answers have the same results, which are those of an in-order run
(`unit`). Only the confidence of a result may differ: it is that of the result's last emission.

A query may read the results of other queries, instead of the stream's events or in addition to them
(`result_event`). It then reads no further than these queries have (`limit`), and its results become
final no earlier than theirs (`hold`). So the wait of a chain is that of its slowest member, not the
sum. A changed result changes an event of the query that reads it, and causes a replay there. An
unchanged result causes nothing (`queries`).

All decisions are made at the end of an instant. The load is computed from counts of items
(`load_model`). It affects only how early results are emitted. A detector that is not deterministic
(`cursor`) reads no further than `final`.

Bounds: `settings`. At `max_events` the new-source allowance ends first. If that is not enough, all
events are read and everything becomes final (`given_up`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from topology.answer.frontier import FRONTIER, NOT_YET, Frontier
from topology.answer.load_model import LOAD_MODEL, LoadModel
from topology.answer.query.fields import KeyTexts
from topology.answer.query.queries import KeepingQuery
from topology.answer.rules import EARLY, FINAL, SPECULATE
from topology.answer.settings import key_path
from topology.base.event import DATA, PASSED, REJECTED, WATERMARK, Event
from topology.base.operator import Figure, Figures, Plain, total
from topology.base.outcome import Step
from topology.base.payload import UNREADABLE, read_payload
from topology.base.result import frame
from topology.queries.detector.detector import Behaviour
from topology.queries.detector.item import (
    BEHIND_ALL,
    FIRST,
    KEY,
    Key,
    LogEntry,
    behind,
    key_after,
    key_before_all_at,
    key_of,
    seen_of,
)
from topology.queries.detector.key_log import CONFLICT, COPY, STORED
from topology.queries.detector.result_event import (
    SAVED_EVENT,
    ResultEvent,
    ResultLog,
    event_from_result,
)
from topology.queries.detector.results import DetectorEmitter
from topology.queries.detector.settings import STREAM_ALONE, DetectorQuery, Inputs, fingerprint
from topology.queries.detector.unit import EXPIRED, REFUSED, UNIT, Unit
from topology.state.saved import FLAG, INT, Shape, list_of
from topology.state.tables import SavedState

FOUND: Final = "found"
"""The kind of an event whose `value` is a result of an earlier operator in the chain."""

OWN: Final = "unit"
LOG: Final = "log/"
RESULT: Final = "result/"
DETECTOR: Final = Shape(
    "detector",
    1,
    _now_ns=INT,
    _instant_open=FLAG,
    _passed=KEY,
    load=LOAD_MODEL,
    _frontier=FRONTIER,
    unit=UNIT,
    _received=list_of(SAVED_EVENT),
)
UNREAD: Final = "unreadable"
UNKEYED: Final = "without_key"
LEFT_OUT: Final = (EXPIRED, REFUSED, COPY, CONFLICT, UNKEYED, UNREAD)
"""The reasons why an event is left out, which are also the names of their figures."""
WHY: Final[Mapping[str, str]] = {
    FINAL: "the finality horizon",
    EARLY: "the watermark",
    SPECULATE: "the newest event, less a wait that keeps rollbacks within budget",
}
"""The limit of reading under each answer, as `explain` describes it."""

FIGURES: Final[Mapping[str, Figure]] = {
    "held": Figure("Events buffered for a rollback, or not yet processed"),
    "keys": Figure("Keys with a state"),
    "emitted": total("First results, including those after a retraction"),
    "updated": total("Results that replaced an earlier result"),
    "retracted": total("Results that were retracted"),
    "wait_ns": Figure("Longest wait after the newest event, of queries that run before the merge"),
    "wait_share_ppm": Figure("Longest wait as a share of the wait of the merge"),
    "lead_ns": Figure("Longest lead of a query over the merge"),
    "processed": total("Events and timers processed for the first time"),
    "replayed": total("Events and timers processed again"),
    "rollbacks": total("Rollbacks of a state to a checkpoint"),
    "converged": total("Replays that ended early because they reached a known state"),
    "corrected": total("Late events that the detector's own correct function processed"),
    "checkpoints": total("States saved for rollbacks"),
    "failed": total("Events and timers at which a detector raised an exception"),
    "too_many_results": total("Events and timers at which a detector returned too many results"),
    "stopped": total("Keys stopped because their state or timers exceeded a bound"),
    "nondeterministic": total(
        "Times that a detector returned different results for the same input"
    ),
    "expired": total("Events that arrived after their time was final"),
    "refused": total("Events left out because max_keys keys existed"),
    "given_up": total("Times that all results were made final because the buffer was full"),
    "duplicates": total("Events seen before"),
    "conflicts": total("Duplicates with another content"),
    "without_key": total("Events without a value for the key of a query"),
    "unreadable": total("Payloads that are not JSON"),
    "revised": total(
        "Results of other queries that arrived or changed before the position already processed"
    ),
    "forgotten": total("Open results of a detector that were forgotten"),
}
"""The figures of DETECTOR with their help, in the order of the metrics."""


class Detecting(KeepingQuery):
    """A query with a detector. `queries.Levels` runs it, alone or with others."""

    def __init__(
        self,
        stream: str,
        query: DetectorQuery,
        behaviour: Behaviour,
        inputs: Inputs = STREAM_ALONE,
        *,
        functions_digest: str = "",
    ) -> None:
        begun = fingerprint(query, inputs)
        super().__init__(query.name, begun + functions_digest.encode())
        self.query = query
        self.inputs = inputs
        self._behaviour = behaviour
        self._types = behaviour.types
        self._keys = KeyTexts()
        self._key_path = key_path(query.key)
        # This class implements `final` itself, so it needs the frontier of `early` for all answers.
        self._frontier = Frontier(query.model_copy(update={"answer": EARLY}))
        self.unit = Unit(behaviour, frame(begun), LOG, finals=query.finals, max_keys=query.max_keys)
        self.load = LoadModel(query.granted_ppm, query.clock.max_ahead_ns)
        self._seen_work = (0, 0)
        """The counts of first and repeated steps that the load model already has.
        """
        self.emitter = DetectorEmitter(stream, query.name, is_keyed=query.key is not None)
        self._left_out = dict.fromkeys(LEFT_OUT, 0)
        self._given_up = self._revised = 0
        self._passed: Key = FIRST
        """The position up to which MERGE has emitted, if accepted events are read."""
        self._limit: Key = BEHIND_ALL
        self._hold: Key = BEHIND_ALL
        self._readings = {each.query: each for each in inputs.reads}
        self._results = ResultLog(RESULT)
        self._received: list[ResultEvent] = []
        """The results of windows and patterns that were found in the open instant."""
        self._saved = SavedState(OWN, DETECTOR, [self.unit.table, self._results])

    # -- the contract ------------------------------------------------------------------------------

    def is_due(self, watermarks: Sequence[Event]) -> bool:
        after = self._frontier.after(watermarks)
        unit = self.unit
        return (
            unit.unread.next_ns <= self._goal_key(after)[0] or unit.open.next_ns <= after.final_ns
        )

    def seal(self) -> None:
        self.emitter.proven_ns = self._frontier.watermark_ns
        self.emitter.settled_ns = self._frontier.watermark_ns - self.inputs.lag_ns

    @property
    def last_ns(self) -> int:
        """The newest time in all inputs of the query. It costs O(buffered results)."""
        return max(self.load.newest_ns, self._frontier.watermark_ns, self._results.newest_ns)

    def end_at(self, last_ns: int, step: Step) -> None:
        """End the input, whose newest time is `last_ns`, and add the last results to the step."""
        self.emitter.now_ns = self._now_ns
        self._frontier.end()
        # The end of the input alone makes no result final.
        unit = self.unit
        unit.finals_until_ns = min(unit.finals_until_ns, self.emitter.settled_ns)
        if last_ns > NOT_YET:
            self.emitter.emit(unit.end(last_ns))
        self.emitter.flush(step)

    def observe(self, event: Event) -> bool:
        """Process an event, and return whether a decision is needed at the end of its instant."""
        if event.kind == DATA:
            if not (self.inputs.is_speculative or event.late):
                self._frontier.observe(event)
            self.load.note_event(event.ref_time_ns, event.at_ns)
            self._put(event)
        elif event.kind == WATERMARK:
            self._frontier.announce(event)
        elif event.kind == PASSED:
            self._frontier.observe(event)
            self._passed = key_after(event)
        elif event.kind == REJECTED:
            self._reject(event)
        elif event.kind == FOUND and event.value.query in self._readings:
            reading = self._readings[event.value.query]
            self._received.append(event_from_result(event.value, reading))
        else:
            return False
        return True

    def _put(self, event: Event) -> None:
        is_read = self.inputs.reads_stream and event.kind == DATA
        if not is_read or (self._types and event.type not in self._types):
            return
        payload = read_payload(event.value)
        if payload is UNREADABLE:
            self._left_out[UNREAD] += 1
            payload = None
        key = self._keys.of(event.source, payload, self._key_path)
        if key is None:
            self._left_out[UNKEYED] += 1
            return
        word = self.unit.put(key, LogEntry(seen_of(event, payload), event))
        if word == STORED:
            self.kept.append(event)
        else:
            self._left_out[word] += 1

    def _reject(self, event: Event) -> None:
        key = self._keys.of(event.source, read_payload(event.value), self._key_path)
        if key is not None:
            self.unit.remove(key, key_of(event))

    # -- events that are results -------------------------------------------------------------------

    def set_instant(self, now_ns: int, *, is_open: bool) -> None:
        self._now_ns, self._instant_open = now_ns, is_open

    @property
    def instant(self) -> tuple[int, bool]:
        return self._now_ns, self._instant_open

    @property
    def decided_key(self) -> Key:
        """The position before which no output can change any more."""
        confirmed = self.unit.confirmed
        return confirmed if confirmed == BEHIND_ALL else key_before_all_at(confirmed[0])

    def read_result(self, said: ResultEvent) -> None:
        """Insert a result of another query as an event, or remove the event of a retracted result.

        This must happen before the query's own decision in the same instant.
        """
        seen = said.seen
        if self._types and seen.type not in self._types:
            return
        key = self._keys.of(seen.source, seen.payload, self._key_path) if said.is_current else None
        if said.is_current and key is None:
            self._left_out[UNKEYED] += 1
        if said.key < self.unit.reached:
            self._revised += 1
        known = self._results.find(said.name)
        if known is not None and (known.key_text != key or known.entry.key != said.key):
            self._results.forget(said.name)
            if not self.unit.remove(known.key_text, known.entry.key):
                self._left_out[EXPIRED] += 1
        if key is None:
            return
        entry = LogEntry(seen, None, said.key, said.name)
        word = self.unit.put(key, entry, replaces=True)
        if word == STORED:
            self._results.keep(said.name, key, entry)
        else:
            self._left_out[word] += 1

    # -- reading on --------------------------------------------------------------------------------

    def decide(self, now_ns: int, limit: Key, hold: Key) -> None:
        """Read further at the end of an instant, after the queries that this one reads.

        These have read up to `limit`, and their results before `hold` cannot change any more.
        """
        self._limit, self._hold = limit, hold
        self.emitter.now_ns = now_ns
        counts = self.unit.counts
        self._frontier.settle()
        self.load.settle(now_ns, self._frontier.watermark_ns)
        received, self._received = self._received, []
        for said in received:
            self.read_result(said)
        self._read()
        first, again = self._seen_work
        self._seen_work = counts.processed, counts.reread_steps
        self.load.note_work(counts.processed - first, counts.reread_steps - again)

    def _read(self) -> None:
        unit, frontier = self.unit, self._frontier
        if unit.held >= self.query.max_events:
            frontier.waive_new_sources()
        final = self._final_key(frontier)
        self.emitter.emit(unit.advance(self._goal_key(frontier), final))
        if unit.held >= self.query.max_events:
            self._given_up += 1
            all_read = behind(max(self.load.newest_ns, frontier.watermark_ns))
            self.emitter.emit(unit.advance(all_read, all_read))
        if unit.released:
            self.released += [entry.event for entry in unit.released if entry.event is not None]
            if self.inputs.reads:
                self._results.let_go(unit.released)
            unit.released.clear()

    def _final_key(self, frontier: Frontier) -> Key:
        return min(key_before_all_at(frontier.final_ns - self.inputs.lag_ns), self._hold)

    def _goal_key(self, frontier: Frontier) -> Key:
        return min(self._own_goal_key(frontier), self._limit)

    def _own_goal_key(self, frontier: Frontier) -> Key:
        """Return the position up to which the query may read by its answer alone.

        Time errors delay the goal of `final` alone; the other answers read up to W or further.
        """
        answer, watermark_ns = self._answer, frontier.watermark_ns
        if answer == FINAL:
            return self._final_key(frontier)
        if answer == EARLY and self._passed[0] == watermark_ns:
            return self._passed  # Other events of this time may still be in MERGE.
        return behind(self.load.goal_ns(watermark_ns) if answer == SPECULATE else watermark_ns)

    @property
    def _answer(self) -> str:
        """The answer in effect: `final` if the detector is not deterministic."""
        return FINAL if self.unit.counts.nondeterministic else self.query.answer

    # -- for people --------------------------------------------------------------------------------

    def figures(self) -> Figures:
        unit = self.unit
        return {
            "held": unit.held,
            "keys": len(unit.logs),
            **unit.counts.figures(),
            **self._left_out,
            "given_up": self._given_up,
            "revised": self._revised,
            "forgotten": unit.forgotten,
            **self.load.figures(
                self._frontier.watermark_ns, is_speculative=self._answer == SPECULATE
            ),
            **self.emitter.figures(),
        }

    def explain(self) -> dict[str, Any]:
        """Return how far the detector has read, why it has read no further, and its figures."""
        load, reached = self.load, self.unit.reached
        why = WHY[self._answer]
        if self.unit.counts.nondeterministic:
            why += f", because the detector is not deterministic: {self.unit.counts.why}"
        elif self._answer == SPECULATE and load.is_spent(self._frontier.watermark_ns):
            why = "as far beyond the watermark as the budget for rollbacks allows"
        reads = [each.query for each in self.inputs.reads]
        if reads and self._limit < self._own_goal_key(self._frontier):
            why = f"its inputs have read no further: {', '.join(reads)}"
        return {
            "answer": self.query.answer,
            "reads": [*(["the stream"] if self.inputs.reads_stream else []), *reads],
            "reads_up_to": why,
            "read": None if reached == FIRST else reached[0],
            "final": None if self._frontier.final_ns <= NOT_YET else self._frontier.final_ns,
            "newest": None if load.newest_ns == NOT_YET else load.newest_ns,
            "ahead_of_merge_ns": load.ahead_ns(self._frontier.watermark_ns),
            "late_events": self._way(),
            "checkpoint_every": self.unit.spacing,
            **load.explain(),
            "trouble": self.unit.counts.why,
            **self.figures(),
        }

    def _way(self) -> str:
        """Describe how events before the position already read are processed."""
        again = "their key is replayed from their place in the order"
        if self._behaviour.corrects:
            return f"its `correct` processes them where that is cheaper; otherwise {again}"
        return again

    # -- state -------------------------------------------------------------------------------------

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        yield len(held)
        if not self._saved.is_in(state):
            return
        yield from super().restoring(state, held)
        counts = self.unit.counts
        nondeterministic = counts.nondeterministic
        for kept in self._results.rows.values():
            self.unit.put(kept.key_text, kept.entry)
        fresh = {*self.unit.fresh}
        came = []
        for event in held:
            if fresh and key_of(event) in fresh:
                came.append(event)
            else:
                self._put(event)
        self.unit.resume()
        self._seen_work = self.unit.counts.processed, self.unit.counts.reread_steps
        for event in came:
            self._put(event)
        self._left_out = dict.fromkeys(LEFT_OUT, 0)  # These events were counted when they arrived.
        counts.nondeterministic = nondeterministic
