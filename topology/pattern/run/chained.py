"""Engines one above the other: what one finds is events for the next (INTO).

Queries that read the same types of matches share an engine, a `MatchReader`: it has all events,
and those matches beside them (`run.match_events`). A match may change, or come, behind the
frontier of whoever finds it, so the frontier of a reader is as much behind (`Compiled.lag_ns`):
there nothing comes late, and nothing final changes.

What each engine finds is handed down before the next does anything else, so what is read is what
was emitted, in its order. A query that reads itself, be it by others, is refused when it is read
(`tree.chains`).

Bound: matches that are read are entries as others are; of the ids of retracted ones as many are
kept as the reach of the readers has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from topology.model.event import Event
from topology.model.operator import Changes, State
from topology.model.result import result_id
from topology.pattern.run.admit import IRRELEVANT, STORED
from topology.pattern.run.compiled import Compiled
from topology.pattern.run.engine import MAX_PARTITIONS, MAX_RETAINED, Engine
from topology.pattern.run.ledger import KNOWN_BY
from topology.pattern.run.match_events import MatchEvent, restored, row_of
from topology.pattern.store.entry import Entry, Identity
from topology.pattern.tree.chains import types_read

READS: Final = "reads"
"""Before the keys of a reader's state, with a digest of the types that it reads."""

MATCH: Final = "match"
"""Before those of the matches that it has."""

LOOK_AT: Final = 64
"""So many matches are known before anybody looks which of them are over."""


def engine_class(queries: Sequence[Compiled]) -> type[Engine]:
    """Several engines, one above the other, where queries read each other's matches."""
    is_chained = any(types_read([each.query for each in queries]).values())
    return ChainedEngine if is_chained else Engine


class MatchReader:
    """An engine with the matches that it reads. `feeds`: the queries that find these, each with its
    engine; `left_out`: matches for which there was no room. Matches are known by the identity of
    the event that each is, withdrawn ones too."""

    def __init__(
        self, engine: Engine, types: frozenset[str], feeds: Sequence[tuple[Compiled, Engine]]
    ) -> None:
        self.engine = engine
        digest = result_id(*(name.encode() for name in sorted(types)))
        self.prefix = f"{READS}/{digest[:KNOWN_BY]}/"
        self.feeds = feeds
        self._names = frozenset(query.name for query, _ in feeds)
        self.left_out = 0
        self._look_at = LOOK_AT
        self._known: dict[Identity, MatchEvent] = {}
        self._current: dict[tuple[str, str], Identity] = {}
        self._changed: dict[Identity, None] = {}

    @property
    def frontier_ns(self) -> int:
        """All that it reads is there before it, and is final."""
        return min(engine.frontier_ns - _lag_ns(query, engine) for query, engine in self.feeds)

    def seal(self) -> None:
        """As `Engine.seal`: what those below cannot change any more is proven."""
        proven_ns = [engine.proven_ns - _lag_ns(query, engine) for query, engine in self.feeds]
        self.engine.proven_ns = min(proven_ns)

    def take(self, events: Iterable[MatchEvent], at_ns: int) -> None:
        """What has become of matches. One that finds no room is left out, and counted."""
        old: list[Entry] = []
        new: dict[Identity, MatchEvent] = {}
        for event in events:
            if event.query not in self._names:
                continue
            identity = self._current.pop((event.query, event.id), None)
            if identity is not None and new.pop(identity, None) is None:
                old.append(self._known[identity].entry)
                self._note(replace(self._known[identity], is_current=False))
            if event.is_current:
                new[event.entry.identity] = replace(event, entry=event.entry.twin())
                self._current[event.query, event.id] = event.entry.identity
        if not old and not new:
            return
        taken = self.engine.exchange(old, [event.entry for event in new.values()], at_ns)
        for entry in taken:
            self._note(new.pop(entry.identity))
        self.left_out += len(new)
        for event in new.values():
            del self._current[event.query, event.id]

    def _note(self, event: MatchEvent) -> None:
        identity = event.entry.identity
        self._known[identity] = event
        self._changed[identity] = None
        if event.is_current:
            self._current[event.query, event.id] = identity

    def forget(self) -> list[Entry]:
        """Let go of matches that nothing asks for any more; the events that the engine has let
        go of."""
        freed = list(self.engine.freed)
        self.engine.freed.clear()
        if not freed and len(self._known) < self._look_at:
            return freed
        since_ns = self.engine.frontier_ns - self.engine.reach_ns
        for identity, event in list(self._known.items()):
            if event.entry.time_ns < since_ns:
                del self._known[identity]
                self._current.pop((event.query, event.id), None)
                self._changed[identity] = None
        self._look_at = max(LOOK_AT, 2 * len(self._known))
        return [entry for entry in freed if entry.inner is None]

    def entries(self) -> Iterable[Entry]:
        """Its events, matches aside."""
        return (entry for entry in self.engine.entries() if entry.inner is None)

    # -- state --------------------------------------------------------------------------------

    def snapshot(self) -> State:
        return self._rows(self.engine.snapshot(), self._known)

    def changes(self) -> Changes:
        rows = self._rows(self.engine.changes(), self._changed)
        self._changed.clear()
        return rows

    def _rows(self, own: Mapping[str, Any], identities: Iterable[Identity]) -> dict[str, Any]:
        rows = {self.prefix + key: value for key, value in own.items()}
        for identity in identities:
            source, _, number = identity
            event = self._known.get(identity)
            rows[f"{self.prefix}{MATCH}/{number}/{source}"] = event and row_of(event)
        return rows

    def take_rows(self, rows: dict[str, Any]) -> dict[str, Any]:
        """Those of a table that are its own."""
        mine = [key for key in rows if key.startswith(self.prefix)]
        return {key.removeprefix(self.prefix): rows.pop(key) for key in mine}

    def restore(self, rows: dict[str, Any], entries: Iterable[Entry], clock_ns: int) -> None:
        """`rows`: its own, none where it is new; `entries`: of events, matches aside; `clock_ns`:
        the newest time there was."""
        events = [restored(rows.pop(key)) for key in list(rows) if key.startswith(f"{MATCH}/")]
        for event in events:
            self._note(event)
        self._changed.clear()
        current = [event.entry for event in events if event.is_current]
        gone = [event.entry for event in events if not event.is_current]
        self.engine.now.clock_ns = clock_ns
        self.engine.restore(rows, [*(each.twin() for each in entries), *current], gone)
        self.engine.findings.clear()
        self.engine.matches.clear()


def _lag_ns(query: Compiled, engine: Engine) -> int:
    """How long behind its end a match of the query may still change."""
    return query.lag_ns + (engine.margin_ns if query.grading else 0)


class ChainedEngine(Engine):
    """The engine of the queries that read events alone, and above it those that read matches."""

    def __init__(
        self,
        queries: Sequence[Compiled],
        stream: str = "",
        emits_final: Collection[str] = (),
        max_partitions: int = MAX_PARTITIONS,
        max_retained: int = MAX_RETAINED,
        max_error_ns: int | None = None,
        *,
        is_plain: bool = True,
    ) -> None:
        reads = types_read([each.query for each in queries])
        below = [each for each in queries if not reads[each.name]]
        left = {name: types for name, types in reads.items() if types}
        super().__init__(
            below,
            stream,
            emits_final,
            max_partitions,
            max_retained,
            max_error_ns,
            is_plain=is_plain,
        )
        self.is_plain = False  # of the whole
        self.readers: list[MatchReader] = []
        feeds: list[tuple[Compiled, Engine]] = [(each, self) for each in below]
        while left:
            waiting = {each.query.into for each in queries if each.name in left}
            types = next(each for each in left.values() if not each & waiting)
            mine = [each for each in queries if left.get(each.name) == types]
            engine = Engine(
                mine,
                stream,
                emits_final,
                max_partitions,
                max_retained,
                max_error_ns,
                is_plain=False,
                reads_matches=True,
            )
            fed = [feed for feed in feeds if feed[0].query.into in types]
            self.readers.append(MatchReader(engine, types, fed))
            feeds += [(each, engine) for each in mine]
            for each in mine:
                del left[each.name]
        self.above = [reader.engine for reader in self.readers]
        read = {query.name for reader in self.readers for query, _ in reader.feeds}
        for engine in (self, *self.above):
            engine.hand_down(read)
        self._found_below, self.findings = self.findings, []
        self.freed = []

    def _down(self, at_ns: int, step: Callable[[MatchReader], object] = lambda _: None) -> None:
        """The first engine has done something: the others read what it has found, and do the same
        by `step`, each after those below it."""
        self.findings += self._found_below
        self._found_below.clear()
        matches = list(self.matches)
        self.matches.clear()
        for reader in self.readers:
            reader.take(matches, at_ns)
            step(reader)
            self.findings += reader.engine.findings
            matches += reader.engine.matches
            reader.engine.findings.clear()
            reader.engine.matches.clear()
        freed = [
            *self.admission.freed,
            *(one for reader in self.readers for one in reader.forget()),
        ]
        self.admission.freed.clear()
        unheld = {entry.identity: entry for entry in freed if not self._is_held(entry)}
        self.freed += unheld.values()

    def _is_held(self, entry: Entry) -> bool:
        retained = (engine.admission.retained for engine in (self, *self.above))
        return any(entry.identity in each for each in retained)

    # -- events -------------------------------------------------------------------------------

    def accept(self, entry: Entry, at_ns: int) -> str:
        first = word = super().accept(entry, at_ns)
        if first not in (STORED, IRRELEVANT):
            self._down(at_ns)
            return first
        words: list[str] = []

        def take(reader: MatchReader) -> None:
            engine = reader.engine
            if engine.asks_for(entry.type):
                words.append(engine.accept(entry.twin(), at_ns))
            else:
                engine.pass_by(entry.event)

        self._down(at_ns, take)
        if first == IRRELEVANT:
            word = next((each for each in words if each != IRRELEVANT), IRRELEVANT)
            self.counts[IRRELEVANT] -= 1
            self.counts[word] += 1
        return word

    def pass_by(self, event: Event) -> str:
        word = super().pass_by(event)
        self._down(event.at_ns, lambda reader: word == IRRELEVANT and reader.engine.pass_by(event))
        return word

    def asks_for(self, type_: str) -> bool:
        return super().asks_for(type_) or any(engine.asks_for(type_) for engine in self.above)

    # -- time ---------------------------------------------------------------------------------

    def advance(self, frontier_ns: int, at_ns: int) -> None:
        super().advance(frontier_ns, at_ns)
        self._down(at_ns, lambda reader: reader.engine.advance(reader.frontier_ns, at_ns))

    def pass_time(self, watermark_ns: int, at_ns: int) -> None:
        super().pass_time(watermark_ns, at_ns)
        self._down(at_ns, lambda reader: reader.engine.pass_time(watermark_ns, at_ns))

    def on_time(self, now_ns: int) -> None:
        super().on_time(now_ns)
        self._down(now_ns, lambda reader: reader.engine.on_time(now_ns))

    def next_deadline_ns(self) -> int | None:
        due = [super().next_deadline_ns(), *(engine.next_deadline_ns() for engine in self.above)]
        return min((each for each in due if each is not None), default=None)

    def begin_after(self, newest_ns: int) -> None:
        super().begin_after(newest_ns)
        for engine in self.above:
            engine.begin_after(newest_ns)

    def is_due(self, frontier_ns: int, target_ns: int, watermark_ns: int) -> bool:
        """What is found below may change all above."""
        return True

    def raise_target(self, query: str, until_ns: int, at_ns: int) -> None:
        super().raise_target(query, until_ns, at_ns)
        self._down(at_ns, lambda reader: reader.engine.raise_target(query, until_ns, at_ns))

    def seal(self, watermark_ns: int) -> None:
        super().seal(watermark_ns)
        for reader in self.readers:
            reader.seal()

    # -- what is known ------------------------------------------------------------------------

    @property
    def compiled(self) -> dict[str, Compiled]:
        found = dict(super().compiled)
        for engine in self.above:
            found |= engine.compiled
        return found

    @property
    def emitted_when_received(self) -> list[str]:
        above = (engine.emitted_when_received for engine in self.above)
        return [*super().emitted_when_received, *chain.from_iterable(above)]

    @property
    def retained(self) -> int:
        return sum(1 for _ in self.entries())

    @property
    def is_crowded(self) -> bool:
        return super().is_crowded or any(engine.is_crowded for engine in self.above)

    @property
    def refused(self) -> int:
        above = (reader.engine.refused + reader.left_out for reader in self.readers)
        return super().refused + sum(above)

    @property
    def unpartitioned(self) -> int:
        return super().unpartitioned + sum(engine.unpartitioned for engine in self.above)

    # -- state --------------------------------------------------------------------------------

    def snapshot(self) -> State:
        state = super().snapshot()
        for reader in self.readers:
            state |= reader.snapshot()
        return state

    def changes(self) -> Changes:
        changes = super().changes()
        for reader in self.readers:
            changes |= reader.changes()
        return changes

    def entries(self) -> Iterable[Entry]:
        every = chain(super().entries(), *(reader.entries() for reader in self.readers))
        return {entry.identity: entry for entry in every}.values()

    def restore(
        self, state: Mapping[str, Any], entries: Iterable[Entry], gone: Iterable[Entry] = ()
    ) -> None:
        rows, kept = dict(state), list(entries)
        parts = [reader.take_rows(rows) for reader in self.readers]
        super().restore(rows, kept, gone)
        for reader, own in zip(self.readers, parts, strict=True):
            reader.restore(own, kept, self.clock_ns)
        self._found_below.clear()
        self._down(0)
