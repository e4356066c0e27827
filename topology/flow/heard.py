"""HEARD: what a replay keeps of the words about clocks, so that it stays small and says the same.

Every replay hears of all sources, those of other streams and those that have sent nothing yet. What
can no event still ask for? A source's clock goes on behind what it has taken. Only a newcomer to
some CLOCK asks for all since ever, up to `activation` before its first event arrived; and no event
arrives before the last that has come, or before those that REORDER still holds. So rounds that all
who know the source have taken, and that arrived that long before the oldest event to come, are
folded into the model that each newcomer would begin with (`topology.clock.models`); the newest
`KEPT` stay as they are. No answer changes by it, nor depends on when it is done.

All is kept of a source that nobody here knows, as the table bounds it: to fold it would cost each
group of streams the work for the sources of all others. At that bound an answer can differ: where
more than `MAX_SAMPLES` rounds were folded, a newcomer takes all of them, not the newest.

It is looked after each `LOOK_EVERY` words, or as many as there are sources, if that is more.

In the state a fold is kept with the CLOCK of the first stream that has its settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from topology.clock.drift_table import KEPT, DriftTable, Place
from topology.clock.models import FOLDED, Rounds, unfolded
from topology.clock.operator import Clock
from topology.config.stages import REORDER
from topology.flow.stage import Stage
from topology.model.composite import SEPARATOR
from topology.model.operator import Changes, Operator, Plain, State
from topology.model.sample import Declared, Sample

LOOK_EVERY: Final = 256
LAST_OFFSET: Final = 1 << 63


class Heard:
    """Whoever owns the stage adds words here, to its table."""

    def __init__(self, table: DriftTable, stage: Stage) -> None:
        self._table = table
        self._clocks: list[Clock] = []
        self._before: list[Operator] = []
        """Those that hold events which CLOCK has not seen."""
        self._prefixes: dict[Rounds, str] = {}
        self._activation_ns = 0
        for stream, chain in stage.chains.items():
            for node in chain.nodes:
                operator = node.operator
                if node.name == REORDER:
                    self._before.append(operator)
                if isinstance(operator, Clock) and (rounds := operator.hears) is not None:
                    self._clocks.append(operator)
                    self._activation_ns = max(self._activation_ns, rounds.config.activation_ns)
                    self._prefixes.setdefault(rounds, f"{stream}{SEPARATOR}{node.prefix}{FOLDED}")
        self._news = 0
        self._folded: set[str] = set()
        self._moved: set[str] = set()
        """Sources of which something is folded, and of which more than in the last changes."""

    def add(self, word: Sample | Declared) -> None:
        self._table.add(word)
        self._news += 1

    def look(self, now_ns: int) -> None:
        """Fold, if there is news enough. All that came with `now_ns` or before is taken."""
        if self._news >= LOOK_EVERY and self._news >= len(self._table):
            self.fold(now_ns)

    def fold(self, now_ns: int) -> None:
        """What no event that arrives at `now_ns` or later can ask for."""
        self._news = 0
        found = list(self._table.long(KEPT))
        if not found:
            return
        waiting = [event.arrival_ns for each in self._before for event in each.held()]
        oldest = (min([now_ns, *waiting]) - self._activation_ns, LAST_OFFSET)
        for source in found:
            if self._table.fold(source, self._taken(source, oldest), [*self._prefixes]):
                self._moved.add(source)
                self._folded.add(source)

    def _taken(self, source: str, until: Place) -> Place:
        """By all who know it."""
        heard = [clock.received(source) for clock in self._clocks]
        return min([until, *(each for each in heard if each is not None)])

    # -- State -------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        return self._rows(self._folded)

    def changes(self) -> Changes:
        changes = self._rows(self._moved)
        self._moved.clear()
        for source in [each for each in self._folded if not self._table.folded(each)]:
            self._folded.discard(source)
            for prefix in self._prefixes.values():
                changes[prefix + source] = None
        return changes

    def _rows(self, sources: Iterable[str]) -> State:
        return {
            self._prefixes[each.rounds] + source: each.dump()
            for source in sources
            for each in self._table.folded(source)
        }

    def restore(self, state: Mapping[str, Plain]) -> None:
        """Before the stage, and when the words have been added."""
        for rounds, prefix in self._prefixes.items():
            for key, value in state.items():
                if key.startswith(prefix):
                    folded = unfolded(rounds, value)
                    source = key[len(prefix) :]
                    if folded is not None:
                        self._table.put(source, folded)
                        self._folded.add(source)
