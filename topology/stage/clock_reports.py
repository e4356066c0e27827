"""Limits the clock reports that a replay keeps, without changing outcomes within the table's bound.

Every replay receives the time-sync rounds of all sources. These include other streams' sources and
sources that have sent no event yet. A round can be folded into a clock model when no future event
needs the round by itself.

A CLOCK that knows a source continues after the rounds that it has processed. Only a source that is
new to some CLOCK needs all earlier rounds, up to `activation` before the arrival of its first
event. CLOCK will get no event that arrived before the newest arrival, except those that REORDER
still buffers. So a round may be folded once every CLOCK that knows the source has processed it. It
must also have arrived at least `activation` before the oldest event that CLOCK may still get. Such
rounds are folded into the model with which each new source would begin
(`topology.order.clock.models`). The newest `KEPT` rounds are not folded. No outcome depends on
when rounds are folded.

The rounds of a source that no operator here knows are all kept, up to the table's bound. Folding
them would cost each group of streams the work for the sources of all other groups. Only at that
bound can folding change an outcome. A new source then gets all folded rounds, and not only the
`MAX_SAMPLES` newest.

The check runs after `LOOK_EVERY` reports, or after one report for each source if that is more.

In the state, folded rounds are stored with the CLOCK of the first stream that has their settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from topology.base.composite import SEPARATOR
from topology.base.operator import Changes, Operator, Plain, State
from topology.base.sample import Declared, Sample
from topology.config.stages import REORDER
from topology.order.clock.drift_table import KEPT, DriftTable, Place
from topology.order.clock.models import FOLDED, Rounds, load_folded
from topology.order.clock.operator import Clock
from topology.stage.by_lane import lanes_in
from topology.stage.registry import CLOCK
from topology.stage.stage import Stage

LOOK_EVERY: Final = 256
LAST_OFFSET: Final = 1 << 63


class ClockReports:
    """The clock reports that a replay keeps in its table; new reports must be added here."""

    def __init__(self, table: DriftTable, stage: Stage) -> None:
        self._table = table
        self._nodes: list[Operator] = []
        """The CLOCK operators; one may keep the state of each lane apart."""
        self._before: list[Operator] = []
        """The REORDER operators, which hold events that CLOCK has not seen."""
        self._prefixes: dict[Rounds, str] = {}
        self._activation_ns = 0
        for stream, chain in stage.chains.items():
            for node in chain.nodes:
                if node.name == REORDER:
                    self._before.append(node.operator)
                elif node.name == CLOCK:
                    self._nodes.append(node.operator)
                for lane, operator in lanes_in(node.operator):
                    prefix = f"{stream}{SEPARATOR}{node.prefix}{lane}{FOLDED}"
                    if isinstance(operator, Clock) and (rounds := operator.used_rounds) is not None:
                        self._activation_ns = max(self._activation_ns, rounds.config.activation_ns)
                        self._prefixes.setdefault(rounds, prefix)
        self._news = 0
        self._folded: set[str] = set()
        self._moved: set[str] = set()
        """The sources for which rounds were folded since the last call of `changes`."""

    def add(self, word: Sample | Declared) -> None:
        self._table.add(word)
        self._news += 1

    def fold_if_due(self, now_ns: int) -> None:
        """Fold rounds if enough reports are new. All inputs up to `now_ns` must be processed."""
        if self._news >= LOOK_EVERY and self._news >= len(self._table):
            self.fold(now_ns)

    def fold(self, now_ns: int) -> None:
        """Fold the rounds that no event arriving at `now_ns` or later can need."""
        self._news = 0
        found = list(self._table.long(KEPT))
        if not found:
            return
        waiting = [event.arrival_ns for each in self._before for event in each.iter_held()]
        oldest = (min([now_ns, *waiting]) - self._activation_ns, LAST_OFFSET)
        for source in found:
            if self._table.fold(source, self._take(source, oldest), [*self._prefixes]):
                self._moved.add(source)
                self._folded.add(source)

    def _take(self, source: str, until: Place) -> Place:
        """Return the last `Place` that all CLOCKs which know the source have reached in its rounds.

        It is at most `until`.
        """
        clocks = [each for node in self._nodes for _, each in lanes_in(node)]
        received = [
            clock.received(source)
            for clock in clocks
            if isinstance(clock, Clock) and clock.used_rounds is not None
        ]
        return min([until, *(each for each in received if each is not None)])

    # -- State -------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        return self._rows(self._folded)

    def changes(self) -> Changes:
        changes = self._rows(self._moved)
        self._moved.clear()
        for source in [each for each in self._folded if not self._table.find_folded(each)]:
            self._folded.discard(source)
            for prefix in self._prefixes.values():
                changes[prefix + source] = None
        return changes

    def _rows(self, sources: Iterable[str]) -> State:
        return {
            self._prefixes[each.rounds] + source: each.dump()
            for source in sources
            for each in self._table.find_folded(source)
        }

    def restore(self, state: Mapping[str, Plain]) -> None:
        """Restore the folded rounds: after all reports were added, before the stage is restored."""
        for rounds, prefix in self._prefixes.items():
            for key, value in state.items():
                if key.startswith(prefix):
                    folded = load_folded(rounds, value)
                    source = key[len(prefix) :]
                    if folded is not None:
                        self._table.put(source, folded)
                        self._folded.add(source)
