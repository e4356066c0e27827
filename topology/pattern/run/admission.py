"""Which events are taken, and which entries are there still.

In = stored + irrelevant + late + duplicate + conflict + unsure + refused + far; `counts` has them.

Proved by: tests/topology/pattern/test_engine_laws.py, tests/topology/pattern/test_uncertain.py
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from topology.model.event import Event
from topology.pattern.match.uncertain.doubt import NO_DOUBT, Doubt
from topology.pattern.store.entry import Entry, Identity

STORED: Final = "stored"
IRRELEVANT: Final = "irrelevant"
LATE: Final = "late"
DUPLICATE: Final = "duplicate"
CONFLICT: Final = "conflict"
UNSURE: Final = "unsure"
"""Its error is larger than `max_error_ns`."""

REFUSED: Final = "refused"
"""As many entries as may be are retained."""

FAR: Final = "far"
"""Its time is beyond `FARTHEST_NS`."""

WORDS: Final = (STORED, IRRELEVANT, LATE, DUPLICATE, CONFLICT, UNSURE, REFUSED, FAR)

FARTHEST_NS: Final = 1 << 62


class Admission:
    """`retained`: entries that some index holds, by identity, at most `max_retained` of them.
    `gone`: those that nothing holds any more; whoever drives the engine empties it."""

    __slots__ = ("_doubt", "counts", "gone", "max_retained", "retained")

    def __init__(self, max_retained: int, doubt: Doubt) -> None:
        self.max_retained = max_retained
        self._doubt = doubt
        self.counts = dict.fromkeys(WORDS, 0)
        self.retained: dict[Identity, Entry] = {}
        self.gone: list[Entry] = []

    @property
    def is_crowded(self) -> bool:
        """At most an eighth of the room for entries is left."""
        return 8 * len(self.retained) > 7 * self.max_retained

    def is_plain(self, entry: Entry, floor_ns: int) -> bool:
        """It is of a sure time and neither late nor known, and there is room."""
        retained = self.retained
        return (
            not entry.event.error_ns
            and entry.time_ns >= floor_ns
            and -FARTHEST_NS <= entry.time_ns <= FARTHEST_NS
            and entry.identity not in retained
            and len(retained) < self.max_retained
        )

    def refusal(self, event: Event, identity: Identity, floor_ns: int) -> str:
        """Why it is not taken; empty if it is. What is earlier than `floor_ns` is late.
        CONFLICT says no more than that one of its identity is retained (`of_known`)."""
        if identity in self.retained:
            return CONFLICT
        time_ns = event.ref_time_ns
        if time_ns < floor_ns:
            return LATE
        if not -FARTHEST_NS <= time_ns <= FARTHEST_NS:
            return FAR
        if self._doubt is not NO_DOUBT and not self._doubt.admits(event.error_ns):
            return UNSURE
        return REFUSED if len(self.retained) >= self.max_retained else ""

    def of_known(self, entry: Entry) -> str:
        """What an entry is of which one of its identity is retained."""
        is_copy = self.retained[entry.identity].is_copy_of(entry)
        return DUPLICATE if is_copy else CONFLICT

    def keep(self, entry: Entry) -> bool:
        """Whether any index holds it."""
        if entry.places:
            self.retained[entry.identity] = entry
        return entry.places > 0

    def let_go(self, entries: Iterable[Entry]) -> None:
        """Each has left one index."""
        for entry in entries:
            entry.places -= 1
            if not entry.places:
                del self.retained[entry.identity]
                self.gone.append(entry)
