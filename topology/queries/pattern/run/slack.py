"""Gathers the corrections of queries with EMIT SLACK.

If at least a tenth of a query's events is late, correcting at once would evaluate the same unit
many times. So the units that late events change are gathered, and each is evaluated once. The wait
is the window multiplied by the share of late events, and at most the largest lateness. A duration
after SLACK replaces this wait. Events in order never wait.

A run waits on the arrival clock, from the first late event on. The wait also ends before the
frontier passes the first anchor of the gathered units.

A gathered unit has a row of its own with the matches of its last evaluation. These cannot be found
again, because events have arrived since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from topology.base.operator import NEVER, Changes, Plain, State
from topology.queries.pattern.match.compiled import Compiled
from topology.queries.pattern.match.match import Match
from topology.queries.pattern.run.affect import uses_any
from topology.queries.pattern.run.forget import put_back
from topology.queries.pattern.run.found_match import FoundMatch
from topology.queries.pattern.run.run import MatchUnit, Run, Wiring
from topology.queries.pattern.store.entry import Entry, Identity, Key
from topology.queries.pattern.store.index import BEFORE_ALL_NS
from topology.state.saved import INT, TEXT, Saved, Shape, list_of, optional, tuple_of

HALF_LIFE_EVENTS: Final = 10_000
FEW: Final = 10
"""Corrections are made at once if fewer than one in this many events is late."""

PREFIX: Final = "gathered/"
"""The prefix of the rows of gathered units; the rest is the key of the unit's own row."""

LATENESS: Final = Shape("pattern.lateness", 1, _events=INT, _late=INT, _largest_ns=INT)
FOUND: Final = tuple_of(TEXT, INT, TEXT, INT, list_of(list_of(tuple_of(TEXT, INT, INT))))
"""A match: its id, `decided_ns`, confidence and alternative, and the identities of its entries."""

EVALUATED: Final = tuple_of(INT, optional(list_of(tuple_of(INT, INT), frozenset)), list_of(FOUND))
"""A unit's last evaluation: `hi_ns`, `waits`, and the found matches."""

GATHERED: Final = tuple_of(INT, optional(EVALUATED))
"""The row of a gathered unit: the time until which it waits, and EVALUATED if it ever was."""


class Lateness(Saved):
    """The counts of one query's events and of its late events, with exponential decay."""

    SHAPE = LATENESS

    def __init__(self) -> None:
        self._events = 0
        self._late = 0
        self._largest_ns = 0

    def count(self, late_by_ns: int) -> None:
        """Count an event that was late by `late_by_ns`, which is 0 for an event in order."""
        self._events += 1
        if late_by_ns > 0:
            self._late += 1
            self._largest_ns = max(self._largest_ns, late_by_ns)
        if self._events >= 2 * HALF_LIFE_EVENTS:
            self._events //= 2
            self._late //= 2

    def wait_ns(self, within_ns: int) -> int:
        """Return for how long to gather corrections; 0 means to correct at once."""
        if self._late * FEW < max(self._events, 1):
            return 0
        return min(self._late * within_ns // self._events, self._largest_ns)


class Slack:
    """The gathered units of a level, and the lateness of its queries with EMIT SLACK.

    Attributes:
        written: The rows of the gathered units by key, as last written.
    """

    def __init__(self, wirings: Iterable[Wiring]) -> None:
        self._lateness = {_key_of(each.query): Lateness() for each in wirings if each.gathers}
        self._gathered: dict[Run, tuple[int, dict[Key, Entry]]] = {}
        self.written: State = {}

    def gather(
        self,
        run: Run,
        anchors: Iterable[Entry],
        filters: Sequence[int],
        late_by_ns: int,
        at_ns: int,
    ) -> bool:
        """Count an event of these filters, and return whether its units were gathered.

        `anchors`: the anchors of the units that it changes.
        """
        lateness = self._lateness[_key_of(run.query)]
        if uses_any(run, filters):
            lateness.count(late_by_ns)
        wait_ns = run.query.query.slack_ns
        if wait_ns is None:
            wait_ns = lateness.wait_ns(run.query.within_ns)
        if not anchors or not late_by_ns or wait_ns <= 0:
            return False
        _, gathered = self._gathered.setdefault(run, (at_ns + wait_ns, {}))
        gathered.update((anchor.key, anchor) for anchor in anchors)
        return True

    @property
    def next_ns(self) -> int:
        """The arrival time at which the first run is due, or NEVER."""
        return min([due_ns for due_ns, _ in self._gathered.values()], default=NEVER)

    def take(self, due_ns: int, frontier_ns: int) -> Iterator[tuple[Run, Iterable[Entry]]]:
        """Take the runs that are due at `due_ns` or at this frontier, with their anchors."""
        for run, (until_ns, by_key) in list(self._gathered.items()):
            anchors = by_key.values()
            if until_ns <= due_ns or min(each.time_ns for each in anchors) < frontier_ns:
                del self._gathered[run]
                yield run, anchors

    # -- state --------------------------------------------------------------------------------

    def lateness(self) -> State:
        """Return the row of each query's `Lateness`, by the query's name and fingerprint."""
        return {key: lateness.dump() for key, lateness in self._lateness.items()}

    def write(self, frontier_ns: int) -> Changes:
        """Return the rows of gathered units that changed since the last call."""
        before, self.written = self.written, {}
        for run, (due_ns, anchors) in self._gathered.items():
            for at, anchor in anchors.items():
                last = _evaluated(run.units.get(at), frontier_ns)
                self.written[PREFIX + run.row_key(anchor)] = due_ns, last
        rows = {key: self.written.get(key) for key in before | self.written}
        return {key: row for key, row in rows.items() if row != before.get(key)}

    def restore(
        self,
        lateness: Mapping[str, Plain],
        runs: Iterable[Run],
        state: State,
        entries: Mapping[Identity, Entry],
    ) -> None:
        """Restore the lateness and the gathered units, and take their rows out of `state`.

        The runs are already restored. A gathered unit becomes what it was at its last evaluation.
        """
        for key in self._lateness.keys() & lateness.keys():
            self._lateness[key].load(lateness[key])
        for run in runs if self._lateness else ():
            for anchor in run.anchors(BEFORE_ALL_NS, -BEFORE_ALL_NS):
                key = PREFIX + run.row_key(anchor)
                if key in state:
                    self.written[key] = state.pop(key)
                    due_ns, last = GATHERED.load(self.written[key], None, key)
                    self._gathered.setdefault(run, (due_ns, {}))[1][anchor.key] = anchor
                    put_back(run, anchor, last and (*last[:2], _load_found(last[2], entries)))


def _key_of(query: Compiled) -> str:
    return f"{query.name}/{query.known_by}"


def _evaluated(unit: MatchUnit | None, frontier_ns: int) -> Plain:
    """Return the row of a unit's last evaluation, or None if it was never evaluated."""
    if unit is None:
        return None
    rows = [
        (id_, found.decided_ns, found.confidence, found.match.alternative, bound)
        for id_, found in unit.found.items()
        if found.decided_ns >= frontier_ns
        for bound in [[[entry.identity for entry in part] for part in found.match.bound]]
    ]
    return unit.hi_ns, None if unit.waits is None else sorted(unit.waits), rows


def _load_found(rows: Iterable[Any], entries: Mapping[Identity, Entry]) -> dict[str, FoundMatch]:
    """Return the found matches of EVALUATED by id."""
    found = {}
    for id_, decided_ns, confidence, alternative, bound in rows:
        parts = tuple(tuple(entries[identity] for identity in part) for part in bound)
        found[id_] = FoundMatch(Match(alternative, parts), decided_ns, confidence)
    return found
