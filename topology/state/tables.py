"""TABLES: saves state in rows by key, and the whole state of an operator (`topology.state.saved`).

A `Table` saves each row under its own name and records which rows have changed. A `SavedState` is
the whole state: one row that each checkpoint writes, and tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from topology.base.native import mypyc_attr
from topology.base.operator import TURN, Changes, Plain, State
from topology.state.saved import (
    SHAPES,
    Shape,
    ShapeRefused,
    ValueKind,
    describe,
    refuse_other_shapes,
)

K = TypeVar("K")
V = TypeVar("V")


@mypyc_attr(allow_interpreted_subclasses=True)
class Table(Generic[K, V]):
    """A table of state rows by key, each saved under its own name, with a record of the changes.

    Call `note` with the key of each row that is added, changed or removed. Nothing is recorded
    before the first call of `changes`, which returns all rows. So a run that never calls it has no
    cost.
    """

    source_at: int = -1
    """How many slashes precede the source in the name of a row; -1 if rows have no source."""

    def __init__(self, prefix: str, kind: ValueKind, rows: dict[K, V] | None = None) -> None:
        """Make a table that saves each row under `prefix` and the row's key.

        `prefix` ends in its only slash. Pass `rows` to share them with another table that has the
        same keys.
        """
        self.prefix = prefix
        self.kind = kind
        self.rows: dict[K, V] = {} if rows is None else rows
        self.is_followed = False
        self.is_apart = False
        """Whether the rows are left out of the row of the table's owner (`TableWithin`)."""
        self._changed: dict[K, None] = {}

    # A subclass may override the next methods to store its rows in another way.

    def all_keys(self) -> Iterable[K]:
        return self.rows

    def find(self, key: K) -> V | None:
        return self.rows.get(key)

    def read(self, rows: Mapping[str, Plain]) -> Iterator[int]:
        """Read this table's saved rows, in steps of several rows."""
        load, begin = self.kind.loader(), len(self.prefix)
        for at, (name, plain) in enumerate(rows.items()):
            try:
                text = name[begin:]
                self.put(self.key_of(text), load(plain, self, text))
            except ValueError as wrong:
                raise ShapeRefused(f"{name}: {wrong}") from wrong
            if not at % TURN:
                yield 0

    def put(self, key: K, row: V) -> None:
        self.rows[key] = row

    def forget(self, key: K) -> None:
        """Remove the row of this key, if there is one."""
        if self.rows.pop(key, None) is not None:
            self.note(key)

    def fresh(self, key: str) -> Any:
        """Return a new row for this key, into which its saved row is read."""
        raise NotImplementedError

    def name_of(self, key: Any) -> str:
        return key if isinstance(key, str) else f"{key[0]}/{key[1]}"

    def key_of(self, name: str) -> Any:
        return name

    def peek(self, key: K) -> Plain:
        """Return the row of this key in its saved form, or None if there is none."""
        row = self.find(key)
        return None if row is None else self.kind.dump(row)

    def note(self, key: K) -> None:
        if self.is_followed:
            self._changed[key] = None

    def snapshot(self) -> State:
        return {self.prefix + self.name_of(key): self.peek(key) for key in self.all_keys()}

    def changes(self) -> Changes:
        """Return the changed rows in the order of their first change; None for a removed row."""
        if not self.is_followed:
            self.is_followed = True
            return {**self.snapshot()}
        changed, self._changed = self._changed, {}
        return {self.prefix + self.name_of(key): self.peek(key) for key in changed}

    def reset_changes(self, *, is_written: bool) -> None:
        """Discard the record of changes. If `is_written`, the changelog already has all rows."""
        self.is_followed = is_written
        self._changed = {}


class TableWithin(ValueKind):
    """The kind of a table whose rows are written within the row of its owner.

    If the table `is_apart`, its rows are left out, and its owner writes them separately.
    """

    def __init__(self, kind: ValueKind) -> None:
        super().__init__(f"{{{kind.name}}}", is_plain=False, kinds=[kind])

    def dump(self, value: Table[Any, Any]) -> Plain:
        return {} if value.is_apart else value.snapshot()

    def read_into(self, one: Any, name: str, plain: Plain) -> None:
        if not isinstance(plain, dict):
            raise self.refusal(plain)
        table = getattr(one, name)
        refuse_others({key: None for key in plain if not key.startswith(table.prefix)})
        for _ in table.read(plain):
            pass


NumberAndKey = tuple[int, str]


@mypyc_attr(allow_interpreted_subclasses=True)
class NumberedTable(Table[NumberAndKey, V]):
    """A table whose keys are pairs of a number and a text."""

    def key_of(self, name: str) -> NumberAndKey:
        number, key = name.split("/", 1)
        return int(number), key


@mypyc_attr(allow_interpreted_subclasses=True)
class Grid(NumberedTable[V]):
    """A table whose rows are stored by number, and for each number by text."""

    def __init__(self, prefix: str, kind: ValueKind) -> None:
        super().__init__(prefix, kind)
        self.by_number: dict[int, dict[str, V]] = {}

    def all_keys(self) -> Iterable[NumberAndKey]:
        for number, rows in self.by_number.items():
            for key in rows:
                yield number, key

    def find(self, key: NumberAndKey) -> V | None:
        rows = self.by_number.get(key[0])
        return None if rows is None else rows.get(key[1])

    def put(self, key: NumberAndKey, row: V) -> None:
        self.by_number.setdefault(key[0], {})[key[1]] = row


@mypyc_attr(allow_interpreted_subclasses=True)
class SavedState:
    """The whole state of an operator: its own row, its tables, and the shapes of both.

    The operator's own row is the only row that is not in a table.
    """

    __slots__ = ("_key", "_row", "_shape", "_tables", "is_followed")

    def __init__(self, key: str, shape: Shape, tables: Sequence[Table[Any, Any]] = ()) -> None:
        """Declare the state of an operator; the operator's own row is saved under `key`."""
        self._key = key
        self._shape = shape
        self._tables = tables
        self._row: Plain = None
        """The operator's own row as last written to the changelog, or None if that is unknown."""
        self.is_followed = False
        """Whether the changelog has the shapes and all rows as of the last call of `changes`.

        After a restore, these are all restored rows. Only later changes must then be written.
        """

    def is_in(self, state: Mapping[str, Plain]) -> bool:
        """Return whether a state contains the operator's own row."""
        return self._key in state

    def snapshot(self, one: Any) -> State:
        state = {SHAPES: describe(self._shape, self._kinds()), self._key: self._shape.dump(one)}
        for table in self._tables:
            state |= table.snapshot()
        return state

    def changes(self, one: Any) -> Changes:
        """Return the rows that have changed since the last call; `one` is the operator."""
        changes: Changes = {}
        row = self._shape.dump(one)
        if row != self._row:
            self._row = changes[self._key] = row
        if not self.is_followed:
            self.is_followed = True
            changes[SHAPES] = describe(self._shape, self._kinds())
        for table in self._tables:
            changes |= table.changes()
        return changes

    def source_of(self, key: str) -> str:
        """Return the source of a row, or "" if the row concerns all sources."""
        prefix, _, name = key.partition("/")
        for table in self._tables:
            if table.prefix == f"{prefix}/" and table.source_at >= 0:
                return name.split("/", table.source_at)[-1]
        return ""

    def _kinds(self) -> dict[str, ValueKind]:
        return {table.prefix: table.kind for table in self._tables}

    def restoring(self, one: Any, state: Mapping[str, Plain], rest: State) -> Iterator[int]:
        """Read the operator's own row into the operator `one`, and then the tables, in steps.

        Rows that belong to neither are put into `rest`. If the state lacks the operator's own row,
        all its rows are. ShapeRefused is raised if a row cannot be read.
        """
        kinds = self._kinds()
        if not self.is_in(state):
            for name in state:
                if name == SHAPES or name[: name.find("/") + 1] in kinds:
                    raise ShapeRefused(f"it has {name:.60}, but no row {self._key}")
            rest |= state
            return
        refuse_other_shapes(state.get(SHAPES), self._shape, kinds)
        self.is_followed = True
        self._shape.put(one, state[self._key])
        yield from read_rows(self._tables, state, rest)
        for name in (SHAPES, self._key):
            rest.pop(name, None)


def read_rows(
    tables: Sequence[Table[Any, Any]],
    state: Mapping[str, Plain],
    others: State,
) -> Iterator[int]:
    """Read the tables' rows in steps, and put the rows that are in no table into `others`."""
    found: dict[str, State] = {table.prefix: {} for table in tables}
    for at, (name, plain) in enumerate(state.items()):
        found.get(name[: name.find("/") + 1], others)[name] = plain
        if not at % TURN:
            yield 0
    for table in tables:
        yield from table.read(found[table.prefix])
        table.reset_changes(is_written=True)


def refuse_others(others: Mapping[str, Plain]) -> None:
    """Raise ShapeRefused if there are rows that no part of the operator declares."""
    if others:
        raise ShapeRefused(f"it has unknown parts: {min(others):.60}")
