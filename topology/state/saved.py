"""Declares which fields of a class are state, and saves and restores them.

A `Shape` names the fields that are state, with their kinds.

    ALLOWANCE = Shape("waiting.allowance", 1, events=INT, late=INT, beyond=INT)

    class Allowance(Saved):
        SHAPE = ALLOWANCE

A `Saved` object has the shape of its class. The owner of a `SavedPart` knows its shape, for example
because the shape depends on settings. An operator is neither: it has a `SavedState`.

    AREA = Shape("area", 1, _outside=INT)

    class Area(SavedOperator):
        def __init__(self) -> None:
            self._saved = SavedState("own", AREA)  # a third argument lists its tables

A `SavedState` is the whole state of an operator: its own row, which each checkpoint writes, and its
tables. A `Table` has rows by key. Its owner calls `note(key)` after each change of a row, or the
next checkpoint does not write the row. `put` does not call `note`.

A `Shape` reads a row into an existing object. For an object in a list or a table, which does not
exist yet, the owner makes an empty one by `fresh`. The argument of `SavedPart.fresh` is the name of
the field, and that of `Table.fresh` the key of the row as text.

A `record` is for a small value whose constructor takes all fields. `INT` is not checked when it is
written. Use `BIG` for integers that may need more than 64 bits.

A row is a tuple of the values in the order of the fields, without their names. So a state lists
once, under `SHAPES`, the shapes in which it is written. A state of any other shapes is refused
(`ShapeRefused`):

| a change | what to do |
| --- | --- |
| a field is added, dropped or of another kind | nothing; older states are refused |
| a field, or the `PLAIN` of one, has another meaning | raise the number of the shape |
| a key, a table's prefix, or state that no shape declares changes | raise `OperatorRow.shape` |
| `Progress`, pages or records get a field with a default | nothing |
| other changes of `Progress`, pages or records | raise `STATE_FORMAT` |

`OperatorRow` is in `topology.stage.registry`, `STATE_FORMAT` in `agents.state.changelog`.

Cost: each shape or record has a generated function that writes it, and one that reads it. They are
generated from its fields when the first row is processed, as `dataclasses` generates `__init__`.
Lists and dicts are read in the same way. A row costs a line of Python for each field, and a type
check for each value that is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from types import CodeType
from typing import Any, ClassVar, Final
from zlib import crc32

from topology.base.native import mypyc_attr
from topology.base.operator import Plain

SHAPES: Final = "#shape"
"""The key under which a state lists the shapes in which it is written."""

_FITS: Final = 1 << 63
_ROW: Final = (list, tuple)
REST: Final = "owner, field"
"""The further parameters of each function that reads a value."""


class ShapeRefused(ValueError):
    """The error for a state that this version of the program cannot read."""


# -- kinds of values -------------------------------------------------------------------------------


@mypyc_attr(allow_interpreted_subclasses=True)
class ValueKind:
    """A kind of value, which defines how values are written and read.

    Attributes:
        name: The name of the kind in a state. Kinds with the same name read each other's values.
        types: The plain types whose values are read unchanged.
        is_plain: Whether `dump` returns values unchanged.
        kinds: The kinds of which this kind is composed.
    """

    def __init__(
        self, name: str, *types: type, is_plain: bool = True, kinds: Sequence[ValueKind] = ()
    ) -> None:
        self.name = name
        self.types = frozenset(types)
        self.is_plain = is_plain
        self.kinds = kinds

    def dump(self, value: Any) -> Plain:
        """Return the value in a form that every codec supports."""
        return value if self.is_plain else self.make_dumper()(value)

    def dump_all(self, values: Iterable[Any]) -> list[Plain]:
        """Return a list of the values in a form that every codec supports."""
        if self.is_plain:
            return list(values)
        dump = self.make_dumper()
        return [dump(value) for value in values]

    def make_dumper(self) -> Callable[[Any], Plain]:
        """Return a function with the effect of `dump`.

        A subclass that is not plain must override `dump` or `make_dumper`, since each uses the
        other.
        """
        return self.dump

    def load(self, plain: Plain, owner: Any, field: str) -> Any:
        """Return the value that `dump` wrote in the form `plain`.

        The value is for the field `field` of `owner`.
        """
        if self.types and type(plain) not in self.types:
            raise self.refusal(plain)
        return plain

    def loader(self) -> Callable[[Plain, Any, str], Any]:
        """Return a function with the effect of `load`, which may be faster."""
        return self.load

    def read_into(self, one: Any, name: str, plain: Plain) -> None:
        """Read the value of the field `name` and store it in the object `one`."""
        setattr(one, name, self.load(plain, one, name))

    def refusal(self, plain: Plain) -> ShapeRefused:
        return ShapeRefused(f"{plain!r:.60} is not of kind {self.name}")


class Scalar(ValueKind):
    """The kind of a value of one of the given types; an integer may have any size.

    Codecs do not support integers beyond 64 bits, so these are packed as text.
    """

    def make_dumper(self) -> Callable[[Any], Plain]:
        return pack

    def load(self, plain: Plain, owner: Any, field: str) -> Any:
        if type(plain) in self.types:
            return plain
        try:
            return unpack(row_of(plain, self, 1))
        except (TypeError, ValueError) as wrong:
            raise self.refusal(plain) from wrong


class Optional(ValueKind):
    """The kind of a value that may be None."""

    def __init__(self, kind: ValueKind) -> None:
        types = *kind.types, type(None)
        super().__init__(f"{kind.name}?", *types, is_plain=kind.is_plain, kinds=[kind])
        self._kind = kind

    def dump(self, value: Any) -> Plain:
        return None if value is None else self._kind.dump(value)

    def load(self, plain: Plain, owner: Any, field: str) -> Any:
        return None if plain is None else self._kind.load(plain, owner, field)


class MadeKind(ValueKind):
    """A kind whose values are read by a function that is generated when the first one is read."""

    def __init__(self, name: str, make: Any, kinds: Sequence[ValueKind], *, is_plain: bool) -> None:
        """Define the kind. `make` constructs a value from its parts, which have been read."""
        super().__init__(name, is_plain=is_plain, kinds=kinds)
        self._make = make
        self._load: Callable[[Plain, Any, str], Any] | None = None

    def load(self, plain: Plain, owner: Any, field: str) -> Any:
        return self.loader()(plain, owner, field)

    def loader(self) -> Callable[[Plain, Any, str], Any]:
        if self._load is None:
            self._load = function(f"plain, {REST}", self.lines(), self, make=self._make)
        return self._load

    def lines(self) -> list[str]:
        """Return the source lines of the generated function, which reads a value."""
        raise NotImplementedError


class Many(MadeKind):
    """The kind of a list, deque or set of values of one kind."""

    def __init__(self, kind: ValueKind, make: Callable[[Iterable[Any]], Any] = list) -> None:
        super().__init__(f"[{kind.name}]", make, [kind], is_plain=False)

    def dump(self, value: Any) -> Plain:
        if not value:
            return []
        return self.kinds[0].dump_all(sorted(value) if self._make is set else value)

    def lines(self) -> list[str]:
        return [
            *row_check_lines("plain"),
            "v0 = plain",
            f"return make({load_all_expression(0, self.kinds[0])})",
        ]


class ByKey(MadeKind):
    """The kind of a dict, written as a list of its keys and a list of its values."""

    def __init__(self, key: ValueKind, value: ValueKind) -> None:
        name = f"{{{key.name} => {value.name}}}"
        super().__init__(name, dict, [key, value], is_plain=False)

    def dump(self, value: Any) -> Plain:
        key, kind = self.kinds
        return key.dump_all(value), kind.dump_all(value.values())

    def lines(self) -> list[str]:
        keys, values = [load_all_expression(at, kind) for at, kind in enumerate(self.kinds)]
        checks = [*row_check_lines("v0"), *row_check_lines("v1", " or len(v0) != len(v1)")]
        return [*unpack_lines(2), *checks, f"return make(zip({keys}, {values}))"]


class Parts(Many):
    """The kind of a list of existing objects of one shape, into which their rows are read."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self._shape = shape

    def read_into(self, one: Any, name: str, plain: Plain) -> None:
        parts = getattr(one, name)
        for part, row in zip(parts, row_of(plain, self, len(parts)), strict=True):
            self._shape.put(part, row)


class Fielded(MadeKind):
    """The kind of a value with fields, each of which has its own kind.

    The fields of a tuple have no names.
    """

    def __init__(
        self,
        name: str,
        kinds: Sequence[ValueKind],
        fields: Sequence[str],
        make: Callable[..., Any] | None = None,
        *,
        is_plain: bool,
    ) -> None:
        super().__init__(name, make, kinds, is_plain=is_plain)
        self.fields = tuple(fields)
        self._dump: Callable[[Any], Plain] | None = None

    def make_dumper(self) -> Callable[[Any], Plain]:
        if self._dump is None:
            row = [f"one.{field}" for field in self.fields]
            row = row or [f"one[{at}]" for at in range(len(self.kinds))]
            for at, kind in enumerate(self.kinds):
                if not kind.is_plain:
                    row[at] = f"dump{at}({row[at]})"
            self._dump = function("one", [f"return ({''.join(f'{one}, ' for one in row)})"], self)
        return self._dump


class RecordKind(Fielded):
    """The kind of a value whose constructor takes all its fields: a tuple, or a small object."""

    def __init__(
        self, make: Callable[..., Any] | None, kinds: Sequence[ValueKind], fields: Sequence[str]
    ) -> None:
        """Define the kind. `make` is the constructor, or None for a tuple."""
        parts = [kind.name for kind in kinds]
        if fields:
            parts = [f"{field}:{part}" for field, part in zip(fields, parts, strict=True)]
        is_plain = not fields and all(kind.is_plain for kind in kinds)
        super().__init__(f"({' '.join(parts)})", kinds, fields, make, is_plain=is_plain)

    def lines(self) -> list[str]:
        values = [f"{load_expression(at, kind)}, " for at, kind in enumerate(self.kinds)]
        made = f"return {'make' if self._make else ''}({''.join(values)})"
        return [*unpack_lines(len(values)), made]


INT: Final = ValueKind("int", int)
"""An integer of 64 bits."""
BIG: Final = Scalar("int", int, is_plain=False)
"""An integer of any size."""
SCALAR: Final = Scalar("scalar", int, float, str, bool, type(None), is_plain=False)
"""A number of any size, a text, a boolean or None."""
FLOAT: Final = ValueKind("float", float)
TEXT: Final = ValueKind("text", str)
FLAG: Final = ValueKind("flag", bool)
PLAIN: Final = ValueKind("plain")
"""A value that its owner converts to a plain value and back."""


optional = Optional
list_of = Many
dict_of = ByKey


def tuple_of(*kinds: ValueKind) -> ValueKind:
    return RecordKind(None, kinds, ())


def record(make: Callable[..., Any], **fields: ValueKind) -> ValueKind:
    """Return the kind of the objects that `make` constructs from these fields, in this order."""
    return RecordKind(make, list(fields.values()), list(fields))


def row_of(plain: Plain, kind: ValueKind, length: int = -1) -> Any:
    """Return a row of this length (-1: any); raise the ShapeRefused of `kind` for anything else."""
    if not isinstance(plain, _ROW) or 0 <= length != len(plain):
        raise kind.refusal(plain)
    return plain


def pack(value: Any) -> Plain:
    """Return the value, or a hex text in a list for an integer beyond 64 bits."""
    if type(value) is int and not -_FITS <= value < _FITS:
        return [hex(value)]
    return value


def unpack(value: Plain) -> Any:
    return int(value[0], 16) if isinstance(value, _ROW) else value


# -- functions made of fields ----------------------------------------------------------------------


@cache
def _compile(text: str) -> CodeType:
    return compile(text, "<shape>", "exec")


def function(
    arguments: str, lines: Iterable[str], kind: ValueKind, **names: Any
) -> Callable[..., Any]:
    """Compile a function from these source lines, which refer to the kinds of fields by index."""
    names["kind"] = kind
    for at, each in enumerate(kind.kinds):
        names |= {one.__name__: one for one in each.types}
        names[f"types{at}"], names[f"kind{at}"] = each.types, each
        names[f"dump{at}"], names[f"load{at}"] = each.make_dumper(), each.loader()
    exec(_compile("\n ".join([f"def made({arguments}):", *lines])), names)
    made: Callable[..., Any] = names["made"]
    return made


def row_check_lines(name: str, also: str = "") -> list[str]:
    """Return the source lines that raise ShapeRefused unless a value is a row."""
    is_no_row = f"type({name}) is not list and type({name}) is not tuple{also}"
    return [f"if {is_no_row}:", "  raise kind.refusal(plain)"]


def unpack_lines(count: int) -> list[str]:
    """Return the source lines that unpack a row into `v0`, `v1` and so on."""
    values = "".join(f"v{at}, " for at in range(count))
    return [*row_check_lines("plain", f" or len(plain) != {count}"), f"({values}) = plain"]


def load_all_expression(at: int, kind: ValueKind) -> str:
    """Return an expression that reads all values of the list `v<at>`."""
    read = f"[load{at}(one, {REST}) for one in v{at}]"
    return f"v{at} if types{at}.issuperset(map(type, v{at})) else {read}" if kind.types else read


def load_expression(at: int, kind: ValueKind, rest: str = REST) -> str:
    """Return an expression that reads the value `v<at>` of a row."""
    load = f"load{at}(v{at}, {rest})"
    if not kind.types:
        return load
    types = [each.__name__ for each in kind.types]
    is_one = f"is {types[0]}" if len(types) == 1 else f"in types{at}"
    return f"v{at} if type(v{at}) {is_one} else {load}"


# -- shapes ----------------------------------------------------------------------------------------


class Shape(Fielded):
    """The fields of a class that are state, by name, in the order of its rows.

    A shape is also a kind: a field of an object may be a part that has a shape. The row of such a
    part is read into the existing part. If a field has several parts, or an optional one, its owner
    makes them (`SavedPart.fresh`).
    """

    def __init__(self, name: str, number: int, /, **fields: ValueKind) -> None:
        """Declare the shape."""
        super().__init__(f"@{name}", list(fields.values()), list(fields), is_plain=False)
        self.by_name: Mapping[str, ValueKind] = fields
        self.title = name
        self.number = number
        self.said: Plain = [name, number, [[field, kind.name] for field, kind in fields.items()]]
        self._read: Callable[[Any, Plain], None] = self._compile_and_read
        self.digest = crc32(repr(describe(self)).encode())
        """A checksum of the shape and of all shapes within it.

        It is used for a row that contains the description of its own shape.
        """

    def with_more(self, name: str, number: int, /, **fields: ValueKind) -> Shape:
        """Return the shape of a subclass that has these further fields."""
        return Shape(name, number, **self.by_name, **fields)

    def loader(self) -> Callable[[Plain, Any, str], Any]:
        return self.load

    def load(self, plain: Plain, owner: Any, field: str) -> Any:
        one = owner.fresh(field)
        self.put(one, plain)
        return one

    def put(self, one: Any, plain: Plain) -> None:
        """Read the row into the new object `one`."""
        try:
            self._read(one, plain)
        except ShapeRefused:
            # This second attempt raises an error that names the field.
            self._put_by_field(one, plain)

    def _compile_and_read(self, one: Any, plain: Plain) -> None:
        lines = unpack_lines(len(self.kinds))
        for at, (name, kind) in enumerate(self.by_name.items()):
            if isinstance(kind, Shape):
                lines.append(f"kind{at}.put(one.{name}, v{at})")
            elif type(kind).read_into is ValueKind.read_into:
                lines.append(f"one.{name} = {load_expression(at, kind, f'one, {name!r}')}")
            else:
                lines.append(f"kind{at}.read_into(one, {name!r}, v{at})")
        lines += ["if isinstance(one, SavedPart):", "  one.derive()"]
        self._read = function("one, plain", lines, self, SavedPart=SavedPart)
        self._read(one, plain)

    def _put_by_field(self, one: Any, plain: Plain) -> None:
        """Read a row field by field; the message of a ShapeRefused names the field."""
        row = row_of(plain, self, len(self.by_name))
        for (name, kind), value in zip(self.by_name.items(), row, strict=True):
            try:
                kind.read_into(one, name, value)
            except ShapeRefused as wrong:
                raise ShapeRefused(f"{name} of {self.title}: {wrong}") from wrong
        if isinstance(one, SavedPart):
            one.derive()

    def read_into(self, one: Any, name: str, plain: Plain) -> None:
        self.put(getattr(one, name), plain)


NO_TABLES: Final[Mapping[str, ValueKind]] = {}


def shapes_in(shape: Shape, tables: Mapping[str, ValueKind]) -> dict[str, Shape]:
    """Return the shapes of a state, including shapes within others, by name."""
    found: dict[str, Shape] = {}
    left = [shape, *tables.values()]
    while left:
        kind = left.pop()
        if isinstance(kind, Shape):
            known = found.setdefault(kind.title, kind)
            assert known is kind, f"two shapes are called {kind.title}"
        left += kind.kinds
    return found


def describe(shape: Shape, tables: Mapping[str, ValueKind] = NO_TABLES) -> Plain:
    """Return the description of the shape, the shapes within it and the tables, as a state has it.

    A table is described by its prefix, which ends in a slash, and by the kind of its rows.
    """
    shapes = [each.said for _, each in sorted(shapes_in(shape, tables).items())]
    return [*shapes, *([prefix, kind.name, []] for prefix, kind in tables.items())]


def refuse_other_shapes(
    said: Plain, shape: Shape, tables: Mapping[str, ValueKind] = NO_TABLES
) -> None:
    """Raise ShapeRefused unless a state was written in these shapes; `said` describes its own."""
    today = describe(shape, tables)
    if said == today:
        return
    if not isinstance(said, _ROW) or not all(isinstance(each, _ROW) and each for each in said):
        raise ShapeRefused(f"its description cannot be read: {said!r:.60}")
    others = [f"{each[0]}" for each in (*said, *today) if (each in said) != (each in today)]
    names = ", ".join(dict.fromkeys(others))
    raise ShapeRefused(f"its description of {names:.200} is not that of this version")


@mypyc_attr(allow_interpreted_subclasses=True, acyclic=True)
class SavedPart:
    """An object with declared state, whose shape its owner knows."""

    __slots__ = ()

    def derive(self) -> None:
        """Compute the attributes that are not state, after all fields have been read."""

    def fresh(self, field: str) -> Any:
        """Return a new object for this field, into which its row is then read."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True, acyclic=True)
class Saved(SavedPart):
    """An object whose state is declared by its `SHAPE`."""

    __slots__ = ()

    SHAPE: ClassVar[Shape]

    def dump(self) -> Plain:
        """Return the object's state as a row."""
        return self.SHAPE.dump(self)

    def load(self, row: Plain) -> None:
        """Read the row into this object, which must be new."""
        self.SHAPE.put(self, row)
