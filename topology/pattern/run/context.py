"""What all runs of an engine share.

Proved by: tests/topology/pattern/test_engine_laws.py
"""

from __future__ import annotations

from collections.abc import Collection

from topology.pattern.match.uncertain.doubt import Doubt
from topology.pattern.run.results import MatchEmitter
from topology.pattern.run.run_state import Moved
from topology.pattern.run.timers import UnitTimers
from topology.pattern.store.index import EntryIndex


class RunContext:
    """`emitter` takes what runs have to say. `clock` and `frontier`: the timers of those lines of
    time. `everything`: all entries, where a STRICT step looks at those of every partition.
    `emits_final`: names of queries that say once more what has become final. `is_plain`: runs take
    the plain way where they can (`run.automaton`). `is_alone`: there is one query only. `moved`:
    those runs with something to be written."""

    __slots__ = (
        "clock",
        "doubt",
        "emits_final",
        "emitter",
        "everything",
        "frontier",
        "is_alone",
        "is_plain",
        "moved",
    )

    def __init__(
        self,
        emitter: MatchEmitter,
        doubt: Doubt,
        everything: EntryIndex | None,
        emits_final: Collection[str],
        *,
        is_plain: bool,
        is_alone: bool,
    ) -> None:
        self.emitter = emitter
        self.doubt = doubt
        self.everything = everything
        self.emits_final = emits_final
        self.is_plain = is_plain
        self.is_alone = is_alone
        self.moved = Moved()
        self.clock = UnitTimers()
        self.frontier = UnitTimers()
