"""Stores the sessions of one key as separate envelopes.

An event changes a single envelope, because all envelopes that it may connect are merged into one
(`session_core`). So each envelope is emitted, saved and forgotten by itself. The number of
envelopes that a key keeps for corrections hardly affects the cost of an event.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from topology.base.native import mypyc_attr
from topology.base.operator import State
from topology.queries.window.cells import Makers
from topology.queries.window.results import CURRENT, Current
from topology.queries.window.session_core import Core, Cores, core_kind, head_of, sessions_of
from topology.state.saved import FLAG, INT, ValueKind, dict_of, list_of, record, tuple_of
from topology.state.tables import NumberAndKey, NumberedTable

Results = dict[int, tuple[Current, int, bool]]
"""The last emitted results by start, each with its end and whether the session was closed."""


@mypyc_attr(acyclic=True)
@dataclass(slots=True, eq=False)
class Envelope:
    """A set of cores that may be one session in some world.

    Attributes:
        cores: The cores, ordered by their first event.
        current: The results that are not final; that of a reopened session is retracted.
        is_exact: Whether all event times are certain; then there is one core.
        is_blurred: Whether there were too many cores; then only corrected timestamps count.
        is_news: Whether the envelope has changed after it was last emitted early.
        is_touched: Whether the envelope has changed in the open instant.
        lower: The earliest possible time of the events.
        upper: The latest possible time of the events.
    """

    cores: Cores
    current: Results
    is_exact: bool
    is_blurred: bool = False
    is_news: bool = False
    is_touched: bool = False
    lower: int = field(init=False)
    upper: int = field(init=False)

    def __post_init__(self) -> None:
        self._set_cores(self.cores)

    def _set_cores(self, cores: Cores) -> None:
        self.cores = sorted(cores, key=head_of)
        self.lower = min([core.lower for core in cores])
        self.upper = max([core.upper for core in cores])

    def absorb(self, other: Envelope) -> None:
        """Merge another envelope into this one, because a new event may connect the two."""
        self._set_cores([*self.cores, *other.cores])
        self.current |= other.current
        self.is_exact = self.is_exact and other.is_exact
        self.is_blurred = self.is_blurred or other.is_blurred
        self.is_news = self.is_news or other.is_news
        self.is_touched = self.is_touched or other.is_touched

    def take(self, core: Core, gap_ns: int) -> None:
        """Add a core to the envelope, after merging it with all cores that it certainly joins."""
        self.is_exact = self.is_exact and core.lower == core.upper
        apart = self.cores
        while True:
            rest: Cores = []
            # Each pass tests a core once; a merge widens the new core, so another pass follows.
            for other in apart:
                if other.joins(core, gap_ns):
                    core.take(other)
                else:
                    rest.append(other)
            if len(rest) == len(apart):
                break
            apart = rest
        self._set_cores([*apart, core])

    def blur(self, gap_ns: int) -> None:
        """Merge the cores of each session; after this only corrected timestamps count."""
        self.is_blurred = True
        merged: Cores = []
        for session in sessions_of(self.cores, gap_ns):
            for core in session[1:]:
                session[0].take(core)
            merged.append(session[0])
        self.cores = merged

    @property
    def is_fresh(self) -> bool:
        """Whether a core is new, or has changed since its last emission in a closed session."""
        return any(core.is_fresh for core in self.cores)


def envelope_kind(makers: Makers) -> ValueKind:
    return record(
        Envelope,
        cores=list_of(core_kind(makers)),
        current=dict_of(INT, tuple_of(CURRENT, INT, FLAG)),
        is_exact=FLAG,
        is_blurred=FLAG,
        is_news=FLAG,
        is_touched=FLAG,
    )


lower_of_envelope: Final = attrgetter("lower")
upper_of_envelope: Final = attrgetter("upper")


@mypyc_attr(acyclic=True)
@dataclass(slots=True, eq=False)
class KeySessions:
    """The sessions of one key.

    Attributes:
        envelopes: The envelopes in order.
        fresh: The envelopes that may have something to emit, including open ones.
    """

    envelopes: list[Envelope] = field(default_factory=list)
    fresh: dict[Envelope, None] = field(default_factory=dict)

    def near(self, lower_ns: int, upper_ns: int, gap_ns: int) -> slice:
        """Return the slice of `envelopes` that a core with these extreme times may join."""
        first = bisect_left(self.envelopes, lower_ns - gap_ns, key=upper_of_envelope)
        after = bisect_right(self.envelopes, upper_ns + gap_ns, key=lower_of_envelope)
        return slice(first, max(first, after))

    def find(self, lower_ns: int) -> Envelope | None:
        """Return the envelope that begins at `lower_ns`, or None."""
        at = bisect_left(self.envelopes, lower_ns, key=lower_of_envelope)
        if at < len(self.envelopes) and self.envelopes[at].lower == lower_ns:
            return self.envelopes[at]
        return None

    def in_order(self) -> list[Envelope]:
        """Return the fresh envelopes in order."""
        return sorted(self.fresh, key=lower_of_envelope)


class Envelopes(NumberedTable[Envelope]):
    """A table of all envelopes, by their start and key."""

    def __init__(self, by_key: dict[str, KeySessions], makers: Makers) -> None:
        super().__init__("session/", envelope_kind(makers))
        self._by_key = by_key

    def snapshot(self) -> State:
        dump = self.kind.make_dumper()
        return {
            f"{self.prefix}{envelope.lower}/{key}": dump(envelope)
            for key, known in self._by_key.items()
            for envelope in known.envelopes
        }

    def find(self, key: NumberAndKey) -> Envelope | None:
        known = self._by_key.get(key[1])
        return None if known is None else known.find(key[0])

    def put(self, key: NumberAndKey, row: Envelope) -> None:
        self._by_key[key[1]].envelopes.append(row)
