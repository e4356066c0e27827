"""Computes session windows: the events of a key that follow each other within a gap.

A session covers [first event, last event + gap] and is identified by the time of its first event.
It is emitted when the frontier has passed its end. A late event may extend a session (`update`). If
the event changes the start, the old session is retracted and a new one emitted. If it connects
sessions, the later ones are retracted. If it reopens a session, the result is retracted, but not as
final, and is emitted again when the session closes. No events are kept, only cores
(`session_core`): one per session if times are certain.

If times are uncertain, `values` are those of the session by corrected timestamps. `low` and `high`
are bounds for the true session that contains its first core, whichever other cores of the envelope
belong to it. A session is also emitted again after a session that may be part of it has changed and
closed, if this changes the result.

A query that began in the middle of the stream emits no session that may include earlier events.
Such a session possibly starts within a gap of the first instant that the query counts
(`topology.answer.query.beginning`). If a late event extends a session back to that time, the
session is retracted.

Bounds: at most `max_windows` cores; beyond that they are given up or events refused, as in `spans`.
An envelope has at most `max_edge_events` cores; beyond that its sessions are emitted by corrected
timestamps alone from then on.

`expired` counts events with a corrected timestamp before the finality horizon, if no kept session
is near. It also counts events that are not after the final sessions of their key, because they
would open a session that overlaps a final one.

Cost: O(aggregates) per event in order; O(cores of the envelope + log envelopes of the key) per
event out of order; O(cores of the envelope) per emitted session.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from topology.answer.frontier import NOT_YET, Frontier
from topology.base.event import Event
from topology.base.operator import NEVER, Figures
from topology.base.timers import Timers
from topology.queries.window.cells import Makers, Values
from topology.queries.window.kind import WindowKind
from topology.queries.window.results import WindowEmitter
from topology.queries.window.session_core import Core, Cores, core_of, merge_rows, sessions_of
from topology.queries.window.session_key import Envelope, Envelopes, KeySessions, lower_of_envelope
from topology.queries.window.settings import WindowQuery
from topology.queries.window.unsure.measure import Measured
from topology.state.saved import INT
from topology.state.tables import Table

NOTHING_EMITTED: Final = None, NEVER, False


class Sessions(WindowKind):
    """The session windows of one query."""

    def __init__(
        self, query: WindowQuery, makers: Makers, frontier: Frontier, emitter: WindowEmitter
    ) -> None:
        super().__init__(query, makers, frontier, emitter)
        self._gap_ns = query.window.size_ns
        self._by_key: dict[str, KeySessions] = defaultdict(KeySessions)
        self._envelopes = Envelopes(self._by_key, makers)
        self._passed: Table[str, int] = Table("passed/", INT)
        """The end of the last final session that was forgotten, by key."""
        self.tables = [self._envelopes, self._passed]
        self._touched: dict[str, None] = {}
        self._fresh: dict[str, None] = {}
        self._closing: Timers[str] = Timers()
        self._ending: Timers[str] = Timers()
        self.count = 0

    # -- Input -------------------------------------------------------------------------------------

    def add(self, event: Event, key: str, values: Values) -> None:
        error_ns = event.error_ns if self._heeds_errors else 0
        ref_ns = event.ref_time_ns
        known = self._by_key.get(key)
        if known is not None and error_ns == 0:
            envelope = known.envelopes[-1]
            newest = envelope.cores[-1]
            if envelope.is_exact and newest.last <= ref_ns <= newest.last + self._gap_ns:
                # This is the plain case: the event continues the newest session.
                newest.last = newest.upper = newest.ends = envelope.upper = ref_ns
                newest.row.add(values, event)
                if newest.is_fresh and not envelope.current and not self._early_ns:
                    # It stays open without a result, and a timer finds its end.
                    self._note(key, envelope)
                    return
                newest.is_fresh = True
                self._mark_touched(key, known, envelope)
                return
        known = known or KeySessions()
        near = known.near(ref_ns - error_ns, ref_ns + error_ns, self._gap_ns)
        is_near = near.start < near.stop
        passed_ns = self._passed.rows.get(key, NOT_YET)
        if ref_ns <= passed_ns or (not is_near and ref_ns < self._frontier.final_ns):
            self.expired += 1
            return
        if not is_near:
            if self.count >= self._max_windows:
                self._make_room()
            if self.count >= self._max_windows:
                self.refused += 1
                return
            known = self._by_key[key]
        row = self._makers.make_row_of_one(values, event)
        self._put(key, known, core_of(event, error_ns, row))

    def _put(self, key: str, known: KeySessions, core: Core) -> None:
        """Put a core into an envelope, after merging all envelopes that the core may join."""
        near = known.near(core.lower, core.upper, self._gap_ns)
        joined = known.envelopes[near]
        for each in joined:
            self.count -= len(each.cores)
            known.fresh.pop(each, None)
            self._note(key, each)
        if joined:
            envelope = joined[0]
            for other in joined[1:]:
                envelope.absorb(other)
            envelope.take(core, self._gap_ns)
        else:
            envelope = Envelope([core], {}, core.lower == core.upper)
        known.envelopes[near] = [envelope]
        if len(envelope.cores) > self._max_edge_events and not envelope.is_exact:
            envelope.blur(self._gap_ns)
        self.count += len(envelope.cores)
        self._mark_touched(key, known, envelope)
        self._closing.arm(key, core.last + self._gap_ns)
        self._ending.arm(key, core.upper + self._gap_ns)

    def _mark_touched(self, key: str, known: KeySessions, envelope: Envelope) -> None:
        self._touched[key] = None
        known.fresh[envelope] = None
        envelope.is_touched = True
        if self._early_ns:
            envelope.is_news = True
            self._fresh[key] = None
        self._note(key, envelope)

    def _make_room(self) -> None:
        """Give up the sessions that have been closed for the longest time."""
        self._update_keys(sorted(self._touched))
        before = self.count
        while self.count >= self._max_windows:
            oldest_ns = self._ending.next_ns
            if oldest_ns >= min(NEVER, self._frontier.closed_ns):
                break
            self._frontier.force_final(oldest_ns + 1)
            self.settle()
        self.given_up += before - self.count

    # -- Emission ----------------------------------------------------------------------------------

    def settle(self) -> None:
        due = {*self._closing.due(self._frontier.goal_ns), *self._touched}
        self._update_keys(sorted(due))
        self._forget_final()

    def is_due(self, frontier: Frontier) -> bool:
        return self._closing.next_ns < frontier.goal_ns or self._ending.next_ns < frontier.final_ns

    def _update_keys(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._touched.pop(key, None)
            known = self._by_key.get(key)
            for envelope in known.in_order() if known is not None else ():
                if envelope.is_touched:
                    envelope.is_touched = False
                    self._note(key, envelope)
                self._update_envelope(key, envelope)
                if known is not None and not envelope.is_fresh:
                    del known.fresh[envelope]
                    envelope.is_news = False
            if known is not None and not any(envelope.is_news for envelope in known.fresh):
                self._fresh.pop(key, None)

    def _update_envelope(self, key: str, envelope: Envelope) -> None:
        closed_ns = self._frontier.goal_ns
        sessions = self._update_sessions(key, envelope)
        if not sessions:
            return
        least_ns = NOT_YET
        # All sessions that may belong together become final at once.
        if self._frontier.waits_for_final:
            least_ns = envelope.upper + self._gap_ns
        ends = [max(self._end_of(session), least_ns) for session in sessions]
        is_stirred = max(ends) < closed_ns and envelope.is_fresh
        for session, end_ns in zip(sessions, ends, strict=True):
            if end_ns >= closed_ns:
                self._closing.arm(key, end_ns)
                self._retract_reopened(key, envelope, session[0].first)
            elif is_stirred or any(core.is_fresh for core in session):
                self._emit(key, envelope, session, is_closed=True)

    def _update_sessions(self, key: str, envelope: Envelope) -> list[Cores]:
        """Retract sessions that no longer exist, and return the current ones.

        Return no sessions if events from before the query may belong to them.
        """
        sessions = sessions_of(envelope.cores, self._gap_ns)
        if envelope.lower < self._beginning.since_ns + self._gap_ns:
            sessions = []
            for core in envelope.cores:
                core.is_fresh = False
            self._note(key, envelope)
        self._retract_moved(key, envelope, sessions)
        return sessions

    def _end_of(self, session: Cores) -> int:
        return max([core.last for core in session]) + self._gap_ns

    def _retract_moved(self, key: str, envelope: Envelope, sessions: Sequence[Cores]) -> None:
        """Retract the results of sessions that are now part of another.

        The result of a reopened session has been retracted already. It is not retracted twice,
        because a retraction must refer to a current result.
        """
        if not envelope.current:
            return
        starts = {session[0].first for session in sessions}
        for start_ns in sorted(envelope.current.keys() - starts):
            current, end_ns, _ = envelope.current.pop(start_ns)
            if current.live:
                self._emitter.retract(key, start_ns, (start_ns, end_ns), current)
            self._note(key, envelope)

    def _retract_reopened(self, key: str, envelope: Envelope, start_ns: int) -> None:
        """Retract the result of a closed session that a late event has opened again."""
        current, end_ns, was_closed = envelope.current.get(start_ns, NOTHING_EMITTED)
        if current is not None and current.live and was_closed:
            self._emitter.retract(key, start_ns, (start_ns, end_ns), current, is_final=False)
            self._note(key, envelope)

    def _emit(self, key: str, envelope: Envelope, session: Cores, *, is_closed: bool) -> None:
        start_ns, end_ns = session[0].first, self._end_of(session)
        before = envelope.current.get(start_ns, NOTHING_EMITTED)[0]
        is_final = self._is_final(envelope)
        current = self._emitter.emit(
            key,
            start_ns,
            (start_ns, end_ns),
            before,
            self._measure_window(envelope, session),
            is_closed=is_closed,
            is_final=is_final,
            is_proven=end_ns < self._frontier.proven_ns,
        )
        if is_closed:
            for core in session:
                core.is_fresh = False
        if is_final:
            envelope.current.pop(start_ns, None)
        else:
            envelope.current[start_ns] = current, end_ns, is_closed
        self._note(key, envelope)

    def _measure_window(self, envelope: Envelope, session: Cores) -> Measured:
        if envelope.is_blurred:
            return self._measure.measure_blurred(merge_rows(session), ())
        if len(envelope.cores) == 1:
            return self._measure.plain(session[0].row)
        possibles = [core.row for core in envelope.cores if core is not session[0]]
        return self._measure.groups(merge_rows(session), session[0].row, possibles)

    def _note(self, key: str, envelope: Envelope) -> None:
        self._envelopes.note((envelope.lower, key))

    @property
    def has_fresh(self) -> bool:
        return bool(self._fresh)

    def emit_early(self) -> None:
        for key in sorted(self._fresh):
            for envelope in self._by_key[key].in_order():
                if not envelope.is_news:
                    continue
                envelope.is_news = False
                self._note(key, envelope)
                for session in self._update_sessions(key, envelope):
                    if any(core.is_fresh for core in session):
                        self._emit(key, envelope, session, is_closed=False)
        self._fresh.clear()

    # -- Cleanup -----------------------------------------------------------------------------------

    def _is_final(self, envelope: Envelope) -> bool:
        return envelope.upper + self._gap_ns < self._frontier.final_ns

    def _forget_final(self) -> None:
        for key in sorted(self._ending.due(self._frontier.final_ns)):
            if key in self._by_key:
                self._forget_final_of_key(key, self._by_key[key])

    def _forget_final_of_key(self, key: str, known: KeySessions) -> None:
        released = 0
        for envelope in known.envelopes:
            if not self._is_final(envelope):
                self._ending.arm(key, envelope.upper + self._gap_ns)
                break
            released += 1
            sessions = sessions_of(envelope.cores, self._gap_ns)
            for session in sessions:
                if session[0].first in envelope.current and self._emits_finals:
                    self._emit(key, envelope, session, is_closed=True)
            self._passed.put(key, self._end_of(sessions[-1]))  # Later envelopes end later.
            known.fresh.pop(envelope, None)
            self.count -= len(envelope.cores)
            self._note(key, envelope)
        if released:
            del known.envelopes[:released]
            self._passed.note(key)
        if not known.envelopes:
            del self._by_key[key]
            self._passed.forget(key)
            self._fresh.pop(key, None)

    # -- State -------------------------------------------------------------------------------------

    def figures(self) -> Figures:
        return {"windows": self.count, "keys": len(self._by_key), **super().figures()}

    def load(self) -> None:
        for key, known in self._by_key.items():
            known.envelopes.sort(key=lower_of_envelope)
            for envelope in known.envelopes:
                self.count += len(envelope.cores)
                if envelope.is_fresh:
                    self._restore_fresh(key, known, envelope)
            # The timers of the first envelope, when they fire, arm those of later ones.
            for first in known.envelopes[:1]:
                for core in first.cores:
                    self._closing.arm(key, core.last + self._gap_ns)
                    self._ending.arm(key, core.upper + self._gap_ns)

    def _restore_fresh(self, key: str, known: KeySessions, envelope: Envelope) -> None:
        known.fresh[envelope] = None
        if envelope.is_touched:
            self._touched[key] = None
        if envelope.is_news:
            self._fresh[key] = None
