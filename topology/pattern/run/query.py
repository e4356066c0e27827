"""Connects queries to the indexes that they share, and holds the data that their runs share."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from topology.model.operator import NEVER, Changes, Plain
from topology.model.result import digest_of, frame, result_id
from topology.model.saved import INT, TEXT, optional, tuple_of
from topology.model.timers import Timers
from topology.pattern.match.compiled import Compiled, EntryFilter, Slot
from topology.pattern.match.evaluation import Place
from topology.pattern.match.ids import key_bytes
from topology.pattern.match.match import Match
from topology.pattern.match.uncertain.doubt import NO_DOUBT, Doubt
from topology.pattern.run.agenda import Agenda
from topology.pattern.run.emit import MatchEmitter
from topology.pattern.run.unit import KNOWN_BY, MatchUnit, Now, UnitOwner
from topology.pattern.store.entry import Key
from topology.pattern.store.index import EntryIndex

QUERY: Final = tuple_of(TEXT, INT, optional(INT))
NO_QUERY: Final = ("", 0, None)
"""The row of a query that is not in the state."""


class Wiring:
    """A query, connected to the indexes that it shares with other queries.

    Filters are given by their numbers in the partition group.

    Attributes:
        number: The query's position among the queries of its level.
        since_ns: The earliest start of a match, if earlier events may be missing. A match that a
            late event extends to before this time is retracted.
        target_ns: The instant before which a match must be decided to be emitted (`quality`);
            None if the query does not wait.
        at_target: The timers of the units that wait for the target.
        corrects_at_once: Whether each event is followed by an evaluation of all units it changes.
        components: The filter of each component of a plain sequence (`match.tactics.followed`).
        slots_of: The slots of each filter.
        filters: All filters of the query.
        anchors: The filters of the slots that a unit's anchor can fill.
        enders: The filters of the slots that the last event of a match can fill.
        blockers: The filters of entries that may forbid a match: those of negations, and of greedy
            groups at its end.
    """

    def __init__(self, number: int, query: Compiled, filters: Sequence[EntryFilter]) -> None:
        self.number = number
        self.query = query
        self.since_ns = -NEVER
        self.target_ns: int | None = None
        self.at_target: Timers[MatchUnit] = Timers()
        self.corrects_at_once = True
        count = 0 if query.steps is None else query.steps.count
        self.components = [filters.index(query.filters[0, j]) for j in range(count)]
        self.slots_of: dict[int, list[Slot]] = {}
        for slot, each in query.filters.items():
            self.slots_of.setdefault(filters.index(each), []).append(slot)
        untils = {filters.index(each) for each in query.untils.values()}
        self.filters = frozenset(self.slots_of.keys() | untils)
        self.anchors = frozenset(filters.index(query.filters[slot]) for slot in query.anchors)
        self.enders = frozenset(filters.index(query.filters[slot]) for slot in query.ends)
        components = [a.components for a in query.form.alternatives]
        forbidding = [(a, j) for a, j in query.filters if j >= len(components[a])]
        forbidding += [(a, j) for a, j in query.ends if components[a][j].greedy]
        self.blockers = frozenset(filters.index(query.filters[slot]) for slot in forbidding)

    def raise_target(self, until_ns: int) -> None:
        """Allow the query to emit what is decided before `until_ns`. The target never falls."""
        self.target_ns = until_ns if self.target_ns is None else max(until_ns, self.target_ns)

    def take_woken(self) -> list[MatchUnit]:
        """Take the units with a match that the query may emit now, by its target."""
        return [] if self.target_ns is None else self.at_target.due(self.target_ns)

    def row(self) -> Plain:
        return self.query.known_by, self.since_ns, self.target_ns

    def restore(self, row: Plain, now_ns: int) -> bool:
        """Restore the row, and return whether the query had a target to wait for and now has none.

        If so, the caller must emit the results for which the query was waiting. `now_ns`: the
        earliest start of the query's matches if the row has another fingerprint.
        """
        fingerprint, since_ns, target_ns = QUERY.load(row, None, self.query.name)
        is_known: bool = fingerprint == self.query.known_by
        self.since_ns = since_ns if is_known else now_ns
        waits = self.target_ns is not None
        if waits and target_ns is not None:
            self.target_ns = target_ns
        return is_known and not waits and target_ns is not None


class RunContext:
    """The data that all runs of a level share.

    Attributes:
        known_by: A digest of the match types that the level reads; empty if it reads none.
        doubt: The largest error; NO_DOUBT if no query uses time errors.
        is_everywhere: Whether some STRICT step looks at the entries of every partition.
        everything: The index of all entries; empty if no step does so.
        emits_final: The names of the queries that emit a result once more when it becomes final.
        is_plain: Whether runs take the plain way if they can (`evaluate.PlainWay`).
        reads_matches: Whether some entries are matches of other queries.
        changed: The runs with rows to write; `QueryLevel.write` clears it.
        rows: The rows that differ from the changelog; None for a deleted row. The engine clears it.
    """

    def __init__(
        self,
        queries: Sequence[Compiled],
        types: frozenset[str],
        emitter: MatchEmitter,
        emits_final: Collection[str],
        max_error_ns: int | None,
        *,
        is_plain: bool,
    ) -> None:
        digest = result_id(*(name.encode() for name in sorted(types)))
        self.known_by = digest[:KNOWN_BY] if types else ""
        self.now = Now()
        self.emitter = emitter
        self.agenda = Agenda()
        heeds_errors = any(query.grading is not None for query in queries)
        self.doubt = Doubt(max_error_ns) if heeds_errors else NO_DOUBT
        self.is_everywhere = any(query.shape.everywhere for query in queries)
        self.everything = EntryIndex()
        self.emits_final = emits_final
        self.is_plain = is_plain and not types
        self.reads_matches = bool(types)
        self.changed: dict[UnitOwner, None] = {}
        self.rows: Changes = {}


class PartitionQuery:
    """A query in one partition, with the data that all parts of its run use.

    Attributes:
        place: The indexes by alternative and component.
        indexes: The same indexes by filter.
        units: The units by the key of their anchor, but only those that have emitted something or
            may still do so.
        doubt: The largest error; NO_DOUBT if the query ignores errors.
        owner: The run.
    """

    __slots__ = ("_id_prefix", "context", "doubt", "emitter", "indexes", "now", "owner",
                 "partition", "place", "query", "units", "wiring")  # fmt: skip

    owner: UnitOwner

    def __init__(
        self,
        wiring: Wiring,
        place: Place,
        indexes: Sequence[EntryIndex],
        partition: Sequence[Any],
        context: RunContext,
    ) -> None:
        self.wiring = wiring
        self.query: Compiled = wiring.query
        self.place = place
        self.indexes = indexes
        self.partition = partition
        self.context = context
        self.now = context.now
        self.emitter = context.emitter
        self.doubt = NO_DOUBT if wiring.query.grading is None else context.doubt
        self.units: dict[Key, MatchUnit] = {}
        key = key_bytes(partition)
        fingerprint = self.query.form.fingerprint.encode()
        self._id_prefix = frame(b"%d:" % len(key) + key + fingerprint)

    def id_of(self, match: Match) -> str:
        return digest_of(self._id_prefix + frame(self.query.ids.of(match)))
