"""Emits rows with a null when no more partners are expected, and corrects them until final.

The rows of an owner (`rows`) are emitted at the end of the instant in which the frontier has passed
the owner's end. If the owner arrived later, they are emitted at the end of the instant of its
arrival. Emitted rows are kept, and compared with the valid rows after each event that may be a
partner of the owner. Rows that are no longer valid are retracted, and new ones emitted. Rows that
have become more or less certain are updated. When nothing can change the rows any more, they are
emitted once more if the query asks for finals, and forgotten.

An owner without a row with a null never gets one later, because partners are only added. So nothing
is recorded about it.

A join that began in the middle of its streams emits no row with a null if a partner may have
arrived before the beginning. It emits rows without a null, because no earlier event can undo them.

At a bound an owner is *abandoned*: its current rows are emitted as final.

State: an entry for each owner that has emitted rows which are not final, and for each abandoned
owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from topology.answer.query.results import CurrentResult
from topology.base.timers import Timers
from topology.queries.join.entry import JoinEntry
from topology.queries.join.frontiers import Frontiers
from topology.queries.join.relation import Relation
from topology.queries.join.results import Current, RowEmitter
from topology.queries.join.rows import JoinRow, Owner, Rows
from topology.queries.join.settings import JoinQuery
from topology.state.saved import FLAG, FLOAT, INT, TEXT, dict_of, tuple_of
from topology.state.tables import NumberedTable

CurrentRows = dict[str, Current]
"""Current rows by their ids."""
Key = tuple[int, str]
"""The cell of an owner, and the name of its event."""
SavedRows = dict[str, tuple[int, bool, float]]
"""The rows of an owner by id: the revision of a row, whether it is certain, and its odds."""
SAVED_ROWS: Final = dict_of(TEXT, tuple_of(INT, FLAG, FLOAT))


class EmittedRows(NumberedTable[SavedRows]):
    """A table of the rows that owners have emitted; `rows` has those from a restored state."""

    def __init__(self, emitted: dict[Key, tuple[Owner, CurrentRows]]) -> None:
        super().__init__("emitted/", SAVED_ROWS)
        self._emitted = emitted

    def all_keys(self) -> Iterable[Key]:
        return self._emitted

    def find(self, key: Key) -> SavedRows | None:
        """Return the rows of an owner as they are saved, by id in ascending order, or None.

        The order is fixed, because a restart may find the rows in another order.
        """
        if key not in self._emitted:
            return None
        return {
            id_: (current.revision, is_sure, row.odds)
            for id_, current in sorted(self._emitted[key][1].items())
            for row, is_sure in (current.content,)
        }


class Owners:
    """The owners of one query that have emitted rows that are not final, or that are abandoned."""

    def __init__(
        self,
        query: JoinQuery,
        relation: Relation,
        rows: Rows,
        frontiers: Frontiers,
        emitter: RowEmitter,
    ) -> None:
        self._finals = query.emits_finals
        self._max_rows = query.max_rows
        self._relation = relation
        self._rows = rows
        self._frontiers = frontiers
        self._emitter = emitter
        self.emitted: dict[Key, tuple[Owner, CurrentRows]] = {}
        self._saved = EmittedRows(self.emitted)
        self._done: NumberedTable[int] = NumberedTable("done/", INT)
        self.tables: tuple[NumberedTable[Any], ...] = (self._saved, self._done)
        self._closing: tuple[Timers[Owner], Timers[Owner]] = (Timers(), Timers())
        """The owners whose rows are still to be emitted: those of the first side, and all others.
        """
        self._ending: tuple[Timers[Owner], Timers[Owner]] = (Timers(), Timers())
        """The owners with emitted rows that are not final, divided likewise."""

    def expect(self, owner: Owner) -> None:
        """Arm the timer of a new or restored owner, which has not emitted rows yet."""
        self._closing[owner[1].side > 0].arm(owner, self._end_of(owner))

    def settle(self) -> None:
        """Emit the rows that the frontiers have closed, and finish those that are now final.

        This is called when an instant is over and the frontiers are set.
        """
        for side in (0, 1):
            due = self._closing[side].due(self._frontiers.goal_ns(side) + 1)
            for owner in sorted(due, key=self._order_key) if due else ():
                self._close(owner, is_final=self._end_of(owner) <= self._frontiers.final_ns(side))
        for side in (0, 1):
            ended = self._ending[side].due(self._frontiers.final_ns(side) + 1)
            for owner in sorted(ended, key=self._order_key) if ended else ():
                if key_of(owner) in self.emitted:
                    self._finish(owner)

    def is_due(self, frontiers: Frontiers) -> bool:
        """Return whether anything may be emitted with these frontiers."""
        return any(
            self._closing[side].next_ns <= frontiers.goal_ns(side)
            or self._ending[side].next_ns <= frontiers.final_ns(side)
            for side in (0, 1)
        )

    def correct(self, owner: Owner) -> None:
        """Correct the emitted rows of an owner after an event that may be its partner."""
        key = key_of(owner)
        if key not in self.emitted:
            return
        if not self._emit(owner, self.emitted[key][1], is_final=False):
            del self.emitted[key]
        self._saved.note(key)

    def abandon(self, owner: Owner) -> None:
        """Emit the current rows of an owner as final, because a bound was reached."""
        key, others = key_of(owner), owner[1].side > 0
        self._closing[others].disarm(owner)
        self._ending[others].disarm(owner)
        if key in self.emitted:
            self._finish(owner)
        elif key not in self._done.rows and (
            owner[1].is_fresh or self._end_of(owner) > self._frontiers.goal_ns(owner[1].side)
        ):
            self._close(owner, is_final=True)
            self._done.put(key, 1)
            self._done.note(key)

    def drop(self, entry: JoinEntry) -> None:
        """Forget the owners of an entry that is no longer kept, as they cannot get more rows."""
        if self._done.rows:
            for owner in self._rows.owners_of(entry):
                self._done.forget(key_of(owner))

    # -- One owner ---------------------------------------------------------------------------------

    def _end_of(self, owner: Owner) -> int:
        return self._relation.end(*owner)

    def _order_key(self, owner: Owner) -> Any:
        return self._end_of(owner), owner[0], owner[1].age

    def _emit(self, owner: Owner, current: CurrentRows, *, is_final: bool) -> bool:
        """Emit the changed rows with a null, and return whether any may still change."""
        found = list(islice(self._rows.lacking(owner), self._max_rows + 1))
        is_cut = len(found) > self._max_rows
        is_final = is_final or is_cut
        rows = {self._emitter.id_of(row): row for row in found[: self._max_rows]}
        for id_ in sorted(current.keys() - rows.keys()):
            self._emitter.retract(current.pop(id_), id_)
        for id_, row in rows.items():
            self._emit_row(owner, current, row, id_, is_final=is_final)
        if is_cut:
            self._emitter.overflow(owner[1], len(rows))
        return (bool(current) or self._rows.gains_rows) and not is_final

    def _close(self, owner: Owner, *, is_final: bool) -> None:
        if not self._frontiers.has_full_history:
            since_ns = self._frontiers.since_ns(owner[1].side)
            if self._rows.begin_ns(owner) < since_ns:
                return  # An event from before the query may be its partner.
        current: CurrentRows = {}
        if self._emit(owner, current, is_final=is_final):
            self._saved.note(self._add_emitted(owner, current))

    def _add_emitted(self, owner: Owner, current: CurrentRows) -> Key:
        key = key_of(owner)
        self.emitted[key] = owner, current
        self._ending[owner[1].side > 0].arm(owner, self._end_of(owner))
        return key

    def _emit_row(
        self, owner: Owner, current: CurrentRows, row: JoinRow, id_: str, *, is_final: bool
    ) -> None:
        """Emit a row if it is new or has changed."""
        is_sure = row.is_certain and self._frontiers.is_sure(owner[1].side, self._end_of(owner))
        if id_ not in current:
            current[id_] = CurrentResult((row, is_sure))
        is_proven = self._end_of(owner) <= self._frontiers.proven_ns(owner[1].side)
        self._emitter.show(
            current[id_], (row, is_sure), id_, is_final=is_final, is_proven=is_proven
        )

    def _finish(self, owner: Owner) -> None:
        """Forget the final rows of an owner; first emit them if the query asks for finals."""
        key = key_of(owner)
        current = self.emitted.pop(key)[1]
        self._saved.note(key)
        if self._finals:
            for id_ in sorted(current):
                self._emit_row(owner, current, current[id_].content[0], id_, is_final=True)

    # -- State -------------------------------------------------------------------------------------

    def resume(self, entries: Mapping[str, JoinEntry]) -> None:
        """Continue with the restored rows, after all events are in the index.

        If the event of an owner is no longer in the input, its rows cannot be corrected.
        """
        for key in [*self._done.rows]:
            if key[1] in entries:
                entry = entries[key[1]]
                self._closing[entry.side > 0].disarm((key[0], entry))
            else:
                self._done.forget(key)
        for key, saved in self._saved.rows.items():
            if key[1] in entries:
                self._resume((key[0], entries[key[1]]), saved)
            else:
                self._saved.note(key)
        self._saved.rows.clear()

    def _resume(self, owner: Owner, saved: SavedRows) -> None:
        current: CurrentRows = {}
        for row in self._rows.lacking(owner):
            id_ = self._emitter.id_of(row)
            if id_ in saved:
                revision, is_sure, odds = saved[id_]
                shown = row._replace(odds=odds), is_sure
                current[id_] = CurrentResult(shown, revision, live=True)
        self._add_emitted(owner, current)


def key_of(owner: Owner) -> Key:
    """Return the key of an owner, unique within the query."""
    return owner[0], name_of(owner[1])


def name_of(entry: JoinEntry) -> str:
    return f"{entry.side}/{entry.name}"
