"""What is known of the sessions of one key: their envelopes, apart from each other.

Whatever an event changes lies within one envelope, those that it joins taken together (`core`). So
each is emitted, saved and forgotten by itself, and what a key keeps for corrections costs nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from topology.answer.frontier import NOT_YET
from topology.model.kept import FLAG, INT, ValueKind, dict_of, list_of, record, tuple_of
from topology.model.operator import State
from topology.model.tables import NumberAndKey, NumberedTable, Table
from topology.window.cells import Makers
from topology.window.results import CURRENT, Current
from topology.window.session_core import Core, Cores, core_kind, head_of, sessions_of

Results = dict[int, tuple[Current, int, bool]]
"""By start: what was emitted last, up to which end, and whether the session was closed then."""


@dataclass(slots=True, eq=False)
class Envelope:
    """`cores` by their first event, possibly from `lower` to `upper`. `current`: the results
    that are not final; also of what is open again, retracted.
    `is_exact`: no time of it has an error, so there is one core. `is_blurred`: there were too many.
    `is_news`: it has changed since it was emitted early; `is_touched`: in the instant that is not
    over."""

    cores: Cores
    current: Results
    is_exact: bool
    is_blurred: bool = False
    is_news: bool = False
    is_touched: bool = False
    lower: int = field(init=False)
    upper: int = field(init=False)

    def __post_init__(self) -> None:
        self._hold(self.cores)

    def _hold(self, cores: Cores) -> None:
        self.cores = sorted(cores, key=head_of)
        self.lower = min([core.lower for core in cores])
        self.upper = max([core.upper for core in cores])

    def absorb(self, other: Envelope) -> None:
        """An event has come that possibly joins the two."""
        self._hold([*self.cores, *other.cores])
        self.current |= other.current
        self.is_exact = self.is_exact and other.is_exact
        self.is_blurred = self.is_blurred or other.is_blurred
        self.is_news = self.is_news or other.is_news
        self.is_touched = self.is_touched or other.is_touched

    def take(self, core: Core, gap_ns: int) -> None:
        """With all that it joins for sure."""
        self.is_exact = self.is_exact and core.lower == core.upper
        apart = self.cores
        while True:
            rest: Cores = []
            for other in apart:  # each is asked once: what it brings widens the core
                if other.joins(core, gap_ns):
                    core.take(other)
                else:
                    rest.append(other)
            if len(rest) == len(apart):
                break
            apart = rest
        self._hold([*apart, core])

    def blur(self, gap_ns: int) -> None:
        """By reference time alone from here on."""
        self.is_blurred = True
        merged: Cores = []
        for session in sessions_of(self.cores, gap_ns):
            for core in session[1:]:
                session[0].take(core)
            merged.append(session[0])
        self.cores = merged

    @property
    def is_fresh(self) -> bool:
        """Something of it has changed since it was emitted."""
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


@dataclass(slots=True, eq=False)
class KeySessions:
    """The sessions of one key. `envelopes` in their order; `fresh` are those with something to be
    emitted, open ones too. `passed_ns`: up to there lie sessions that are final and released."""

    envelopes: list[Envelope] = field(default_factory=list)
    fresh: dict[Envelope, None] = field(default_factory=dict)
    passed_ns: int = NOT_YET

    def near(self, lower_ns: int, upper_ns: int, gap_ns: int) -> slice:
        """The envelopes that what lies there possibly joins."""
        first = bisect_left(self.envelopes, lower_ns - gap_ns, key=upper_of_envelope)
        after = bisect_right(self.envelopes, upper_ns + gap_ns, key=lower_of_envelope)
        return slice(first, max(first, after))

    def find(self, lower_ns: int) -> Envelope | None:
        """That which begins there."""
        at = bisect_left(self.envelopes, lower_ns, key=lower_of_envelope)
        if at < len(self.envelopes) and self.envelopes[at].lower == lower_ns:
            return self.envelopes[at]
        return None

    def in_order(self) -> list[Envelope]:
        """The fresh ones."""
        return sorted(self.fresh, key=lower_of_envelope)


class Envelopes(NumberedTable[Envelope]):
    """All envelopes, by where they begin and their key."""

    def __init__(self, by_key: dict[str, KeySessions], makers: Makers) -> None:
        super().__init__("session/", envelope_kind(makers))
        self._by_key = by_key

    def snapshot(self) -> State:
        dump = self.kind.dumper()
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


class Passed(Table[str, int]):
    """Up to where the sessions of a key are final and released."""

    def __init__(self, by_key: dict[str, KeySessions]) -> None:
        super().__init__("passed/", INT)
        self._by_key = by_key

    def all_keys(self) -> Iterable[str]:
        return [key for key in self._by_key if self.find(key) is not None]

    def find(self, key: str) -> int | None:
        known = self._by_key.get(key)
        return None if known is None or known.passed_ns == NOT_YET else known.passed_ns

    def put(self, key: str, row: int) -> None:
        self._by_key[key].passed_ns = row
