"""Session windows: the events of a key that follow each other within a gap.

A session lies in [first event, last event + gap] and is known by its first event. It is told
when the frontier has passed its end. A late event may widen it (`update`), move its start
(the old one is retracted, a new one emitted) or join it with others (those are retracted).
No event is kept: what is kept are cores (`core`), one for each session where times are sure.

Where they are not, values are of the session by reference time; `low` and `high` hold for the
true session that holds its first core, whichever other cores of the envelope belong to it.
A session is told anew when one near enough to be part of it has changed and closed, too.

Bounds: `max_windows` cores, given up and refused as with `spans`; `max_edge_events` cores a
key: beyond, its sessions are told by reference time alone from there on. What comes for a
session that is final, or alone at a time that is, is counted in `expired`.

Cost per event O(aggregates), out of order O(cores of the key); per session told O(cores).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from topology.operator import Plain
from topology.window.cells import Makers, add
from topology.window.config import IGNORE, WindowConfig
from topology.window.core import Core, Cores, envelopes_of, head_of, sessions_of, together
from topology.window.due import Due
from topology.window.frontier import Frontier
from topology.window.journal import Journal, Part
from topology.window.measure import Measure, Measured
from topology.window.reading import Values
from topology.window.telling import NEW, Teller
from topology.window.track import Track, restored

TRACK: Final = "session"


class Sessions:
    """State of one query; see the module's docstring."""

    def __init__(
        self, config: WindowConfig, makers: Makers, frontier: Frontier, teller: Teller
    ) -> None:
        self._config = config
        self._gap_ns = config.size_ns
        self._makers = makers
        self._frontier = frontier
        self._teller = teller
        self._measure = Measure(config, makers)
        self._heeds_errors = config.uncertainty != IGNORE
        self._tracks: dict[str, Track] = {}
        self._touched: dict[str, None] = {}
        self._fresh: dict[str, None] = {}
        self._due = Due()
        self._due_final = Due()
        self.journal = Journal()
        self.count = 0
        self.expired = 0
        self.refused = 0
        self.given_up = 0

    # -- taking events in --------------------------------------------------------------------------

    def add(self, event: Any, key: str, values: Values) -> None:
        error_ns = event.error_ns if self._heeds_errors else 0
        ref_ns = event.ref_time_ns
        track = self._tracks.get(key)
        if track is not None and error_ns == 0 and track.is_exact and track.cores:
            newest = track.cores[-1]
            if newest.last <= ref_ns <= newest.last + self._gap_ns:
                # The plain case: one more of the session that is going on.
                newest.last = newest.upper = newest.ends = ref_ns
                newest.is_fresh = True
                add(newest.cells, values, event)
                self._touch(key, track)
                return
        if track is None or not self._is_near(track, ref_ns):
            if ref_ns + error_ns + self._gap_ns < self._frontier.final_ns:
                self.expired += 1
                return
            if self.count >= self._config.max_windows:
                self._make_room()
            if self.count >= self._config.max_windows:
                self.refused += 1
                return
            track = self._tracks.setdefault(key, Track())
        head = ref_ns, event.source, event.epoch, event.seq
        self._join(key, track, Core(head, error_ns, self._makers.of_one(values, event)))

    def _is_near(self, track: Track, ref_ns: int) -> bool:
        gap_ns = self._gap_ns
        return any(core.first - gap_ns <= ref_ns <= core.last + gap_ns for core in track.cores)

    def _join(self, key: str, track: Track, core: Core) -> None:
        """Take the core in, with all that it joins for sure."""
        track.is_exact = track.is_exact and core.lower == core.upper
        before = len(track.cores)
        apart = track.cores
        while True:
            rest: Cores = []
            for other in apart:  # each is asked once: what it brings widens the core
                if other.joins(core, self._gap_ns):
                    core.take(other)
                else:
                    rest.append(other)
            if len(rest) == len(apart):
                break
            apart = rest
        track.cores = sorted([*apart, core], key=head_of)
        if len(track.cores) > self._config.max_edge_events and not track.is_exact:
            self._blur(track)
        self.count += len(track.cores) - before
        self._touch(key, track)
        self._due.add(key, core.last + self._gap_ns)
        self._due_final.add(key, core.upper + self._gap_ns)

    def _blur(self, track: Track) -> None:
        track.is_blurred = True
        merged: Cores = []
        for session in sessions_of(track.cores, self._gap_ns):
            for core in session[1:]:
                session[0].take(core)
            merged.append(session[0])
        track.cores = merged

    def _touch(self, key: str, track: Track) -> None:
        self._touched[key] = None
        if self._config.early_ns:
            self._fresh[key] = None
        self._note(key, track)

    def _make_room(self) -> None:
        """Give up the sessions that have been closed for longest."""
        self._settle_keys(sorted(self._touched))
        before = self.count
        while self.count >= self._config.max_windows:
            oldest_ns = self._due_final.first_ns()
            if oldest_ns is None or oldest_ns >= self._frontier.closed_ns:
                break
            self._frontier.give_up(oldest_ns + 1)
            self._retire()
        self.given_up += before - self.count

    # -- telling -----------------------------------------------------------------------------------

    def settle(self) -> None:
        """The instant is over: close what the frontier has passed, correct what has changed."""
        due = self._due.take_before(self._frontier.closed_ns)
        due.update(self._touched)
        self._settle_keys(sorted(due))
        self._retire()

    def is_due(self, frontier: Frontier) -> bool:
        """With the frontier there, something would be told or forgotten."""
        closing_ns, ending_ns = self._due.first_ns(), self._due_final.first_ns()
        return (closing_ns is not None and closing_ns < frontier.closed_ns) or (
            ending_ns is not None and ending_ns < frontier.final_ns
        )

    def _settle_keys(self, keys: Sequence[str]) -> None:
        for key in keys:
            track = self._tracks.get(key)
            if track is None:
                continue
            if self._touched.pop(key, self) is None:
                self._note(key, track)
            self._settle_key(key, track)
            if not any(core.is_fresh for core in track.cores):
                self._see(key, track)

    def _settle_key(self, key: str, track: Track) -> None:
        closed_ns = self._frontier.closed_ns
        envelopes = envelopes_of(track.cores, self._gap_ns)
        self._retract_moved(key, track)
        for envelope in envelopes:
            sessions = sessions_of(envelope, self._gap_ns)
            ends = [max(core.last for core in session) + self._gap_ns for session in sessions]
            all_closed = max(ends) < closed_ns
            stirred = all_closed and any(core.is_fresh for core in envelope)
            for session, end_ns in zip(sessions, ends, strict=True):
                if end_ns >= closed_ns:
                    self._due.add(key, end_ns)
                elif stirred or any(core.is_fresh for core in session):
                    self._tell(key, track, session, envelope, is_closed=True)

    def _retract_moved(self, key: str, track: Track) -> None:
        """What was told of sessions that are part of another now."""
        if not track.shown:
            return
        starts = {session[0].first for session in sessions_of(track.cores, self._gap_ns)}
        for start_ns in sorted(track.shown.keys() - starts):
            revision, end_ns = track.shown.pop(start_ns)
            self._teller.retract(key, start_ns, (start_ns, end_ns), revision)
            self._note(key, track)

    def _tell(
        self, key: str, track: Track, session: Cores, envelope: Cores, *, is_closed: bool
    ) -> None:
        start_ns = session[0].first
        end_ns = max(core.last for core in session) + self._gap_ns
        revision, _ = track.shown.get(start_ns, (NEW, 0))
        is_final = self._is_final(envelope)
        self._teller.tell(
            key,
            start_ns,
            (start_ns, end_ns),
            revision,
            self._measured(track, session, envelope),
            is_closed=is_closed,
            is_final=is_final,
        )
        if is_closed:
            for core in session:
                core.is_fresh = False
        if is_final:
            track.shown.pop(start_ns, None)
        else:
            track.shown[start_ns] = revision + 1, end_ns
        self._note(key, track)

    def _measured(self, track: Track, session: Cores, envelope: Cores) -> Measured:
        if track.is_blurred:
            return self._measure.blurred(together(session), ())
        if len(envelope) == 1:
            return self._measure.plain(session[0].cells)
        possibles = [core.cells for core in envelope if core is not session[0]]
        return self._measure.groups(together(session), session[0].cells, possibles)

    def _note(self, key: str, track: Track) -> None:
        if self.journal.is_kept and not track.dirty:
            track.dirty = True
            self.journal.note(TRACK, 0, key)

    @property
    def has_fresh(self) -> bool:
        """Something is to be told early."""
        return bool(self._fresh)

    def tell_early(self) -> None:
        for key in sorted(self._fresh):
            track = self._tracks[key]
            self._retract_moved(key, track)
            for envelope in envelopes_of(track.cores, self._gap_ns):
                for session in sessions_of(envelope, self._gap_ns):
                    if any(core.is_fresh for core in session):
                        self._tell(key, track, session, envelope, is_closed=False)
            self._see(key, track)

    def _see(self, key: str, track: Track) -> None:
        if self._fresh.pop(key, self) is None:
            self._note(key, track)

    # -- forgetting --------------------------------------------------------------------------------

    def _is_final(self, envelope: Cores) -> bool:
        upper_ns = max(core.upper for core in envelope)
        return upper_ns + self._gap_ns < self._frontier.final_ns

    def _retire(self) -> None:
        for key in sorted(self._due_final.take_before(self._frontier.final_ns)):
            if key in self._tracks:
                self._retire_key(key, self._tracks[key])

    def _retire_key(self, key: str, track: Track) -> None:
        kept: Cores = []
        for envelope in envelopes_of(track.cores, self._gap_ns):
            if not self._is_final(envelope):
                kept += envelope
                self._due_final.add(key, max(core.upper for core in envelope) + self._gap_ns)
                continue
            for session in sessions_of(envelope, self._gap_ns):
                if session[0].first in track.shown and self._config.finals:
                    self._tell(key, track, session, envelope, is_closed=True)
                track.shown.pop(session[0].first, None)
            self.count -= len(envelope)
        track.cores = sorted(kept, key=head_of)
        self._note(key, track)
        if not track.cores:
            del self._tracks[key]
            self._fresh.pop(key, None)

    # -- state -------------------------------------------------------------------------------------

    def figures(self) -> dict[str, int]:
        return {
            "windows": self.count,
            "keys": len(self._tracks),
            "expired": self.expired,
            "refused": self.refused,
            "given_up": self.given_up,
        }

    def parts(self) -> Iterable[Part]:
        for key in self._tracks:
            yield TRACK, 0, key

    def dump(self, part: Part) -> Plain:
        """Now that it is saved."""
        track = self._tracks.get(part[2])
        if track is not None:
            track.dirty = False
        return self.peek(part)

    def peek(self, part: Part) -> Plain:
        """None if the part is gone."""
        key = part[2]
        track = self._tracks.get(key)
        if track is None:
            return None
        return [track.dump(), key in self._touched, key in self._fresh]

    def load(self, part: Part, state: Plain) -> None:
        key = part[2]
        known, is_touched, is_fresh = state
        track = self._tracks[key] = restored(known, self._makers)
        self.count += len(track.cores)
        if is_touched:
            self._touched[key] = None
        if is_fresh:
            self._fresh[key] = None
        for core in track.cores:
            self._due.add(key, core.last + self._gap_ns)
            self._due_final.add(key, core.upper + self._gap_ns)

    def loaded(self) -> None:
        """All parts and the frontier are there."""
