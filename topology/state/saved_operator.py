"""Defines the base class of operators whose state is declared (`topology.state.saved`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from topology.base.event import Event
from topology.base.native import mypyc_attr
from topology.base.operator import Changes, Operator, Plain, State
from topology.state.tables import SavedState, refuse_others


@mypyc_attr(allow_interpreted_subclasses=True)
class SavedOperator(Operator):
    """An operator with a `SavedState`, which a subclass creates as `_saved`.

    An operator that is never saved by itself needs no `_saved`. A subclass that holds events, or
    computes something from its state, extends `restoring`. A subclass with state outside its
    `SavedState` overrides `_restore_others`.
    """

    _saved: SavedState

    def snapshot(self) -> State:
        return self._saved.snapshot(self)

    def changes(self) -> Changes:
        return self._saved.changes(self)

    def source_of(self, key: str) -> str:
        return self._saved.source_of(key)

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        """Restore the state in steps; raise ShapeRefused if it cannot be read."""
        others: State = {}
        yield from self._saved.restoring(self, state, others)
        self._restore_others(others)

    def _restore_others(self, others: State) -> None:
        """Restore the state that is not in the `SavedState`; the default refuses any such state."""
        refuse_others(others)
