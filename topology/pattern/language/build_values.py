"""Values and conditions of a query as Python writes them: part of
topology.pattern.language.builder.

An operand becomes a tree only when its query is built, since only then its events have their
aliases. Attributes are Python attributes, `g.percent`, `g.pos.x`; those with the name of a
method of an event, or with other signs, are written `g["times"]`.

Proved by: tests/topology/pattern/language/test_builder.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from topology.pattern.tree import syntax, words
from topology.pattern.tree.syntax import Expr
from topology.pattern.tree.walk import flat

Key = object
"""What an event and the copies that `.many()` and the like make of it have in common."""

Aliases = Mapping[Key, str]
Make = Callable[[Aliases], Expr]


class Nanoseconds(int):
    """Nanoseconds; a number of them is written like `30 * SECOND`."""

    def __mul__(self, other: Any) -> Nanoseconds:
        return Nanoseconds(int.__mul__(self, other))

    __rmul__ = __mul__


NANOSECOND: Final = Nanoseconds(words.NANOSECOND)
MICROSECOND: Final = Nanoseconds(words.MICROSECOND)
MILLISECOND: Final = Nanoseconds(words.MILLISECOND)
SECOND: Final = Nanoseconds(words.SECOND)
MINUTE: Final = Nanoseconds(words.MINUTE)
HOUR: Final = Nanoseconds(words.HOUR)
DAY: Final = Nanoseconds(words.DAY)


class Operand:
    """A value or a condition. `&`, `|` and `~` join conditions, since Python keeps `and`,
    `or` and `not` to itself."""

    __slots__ = ("_make",)

    def __init__(self, make: Make) -> None:
        self._make = make

    def __bool__(self) -> bool:
        raise TypeError("a condition has no value yet; write & for and, | for or, ~ for not")

    def __eq__(self, other: Any) -> Operand:  # type: ignore[override]
        return _compared("=", self, other)

    def __ne__(self, other: Any) -> Operand:  # type: ignore[override]
        return _compared("!=", self, other)

    def __lt__(self, other: Any) -> Operand:
        return _compared("<", self, other)

    def __le__(self, other: Any) -> Operand:
        return _compared("<=", self, other)

    def __gt__(self, other: Any) -> Operand:
        return _compared(">", self, other)

    def __ge__(self, other: Any) -> Operand:
        return _compared(">=", self, other)

    def __add__(self, other: Any) -> Operand:
        return _counted("+", self, other)

    def __radd__(self, other: Any) -> Operand:
        return _counted("+", other, self)

    def __sub__(self, other: Any) -> Operand:
        return _counted("-", self, other)

    def __rsub__(self, other: Any) -> Operand:
        return _counted("-", other, self)

    def __mul__(self, other: Any) -> Operand:
        return _counted("*", self, other)

    def __rmul__(self, other: Any) -> Operand:
        return _counted("*", other, self)

    def __truediv__(self, other: Any) -> Operand:
        return _counted("/", self, other)

    def __rtruediv__(self, other: Any) -> Operand:
        return _counted("/", other, self)

    def __mod__(self, other: Any) -> Operand:
        return _counted("%", self, other)

    def __rmod__(self, other: Any) -> Operand:
        return _counted("%", other, self)

    def __neg__(self) -> Operand:
        return Operand(lambda aliases: syntax.Negative(tree(self, aliases)))

    def __and__(self, other: Any) -> Operand:
        return Operand(lambda aliases: flat(syntax.And, trees((self, other), aliases)))

    def __or__(self, other: Any) -> Operand:
        return Operand(lambda aliases: flat(syntax.Or, trees((self, other), aliases)))

    def __invert__(self) -> Operand:
        return Operand(lambda aliases: syntax.Not(tree(self, aliases)))


def tree(value: Any, aliases: Aliases) -> Expr:
    """What stands for a value in the tree; numbers, strings, None and lengths are constants."""
    if isinstance(value, Operand):
        return value._make(aliases)
    if isinstance(value, Nanoseconds):
        return syntax.Duration(int(value))
    if value is None or isinstance(value, bool | int | float | str):
        return syntax.Constant(value)
    raise TypeError(f"{value!r} is no value of a query; name an attribute, like event.x")


def trees(values: Sequence[Any], aliases: Aliases) -> tuple[Expr, ...]:
    return tuple(tree(value, aliases) for value in values)


def _compared(sign: Literal["=", "!=", "<", "<=", ">", ">="], left: Any, right: Any) -> Operand:
    return Operand(lambda aliases: syntax.Compare(sign, tree(left, aliases), tree(right, aliases)))


def _counted(sign: Literal["+", "-", "*", "/", "%"], left: Any, right: Any) -> Operand:
    return Operand(
        lambda aliases: syntax.Arithmetic(sign, tree(left, aliases), tree(right, aliases))
    )


def checked_name(name: str) -> str:
    if not name or "`" in name:
        raise ValueError(f"{name!r} is no name: it must not be empty nor hold a back-tick")
    return name


class Position:
    """`i` in `t[i + 1]` and `t[:i]`."""

    __slots__ = ("offset",)

    def __init__(self, offset: int = 0) -> None:
        self.offset = offset

    def __add__(self, other: int) -> Position:
        return Position(self.offset + other)

    def __sub__(self, other: int) -> Position:
        return Position(self.offset - other)


i: Final = Position()


class Reference(Operand):
    """An attribute of an event, or of an element of a group. `before`: of the elements up to
    that many before the i-th, which aggregates take."""

    __slots__ = ("_before", "_index", "_key", "_path")

    def __init__(
        self,
        key: Key,
        path: tuple[str, ...] = (),
        index: syntax.Index | None = None,
        before: int | None = None,
    ) -> None:
        super().__init__(self._tree)
        self._key = key
        self._path = path
        self._index = index
        self._before = before

    def __getattr__(self, name: str) -> Reference:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Reference:
        path = (*self._path, checked_name(name))
        return Reference(self._key, path, self._index, self._before)

    def _tree(self, aliases: Aliases) -> Expr:
        if not self._path:
            raise ValueError("an event is no value; name one of its attributes, like t[i].x")
        if self._before is not None:
            raise ValueError("a stretch of a group is for aggregates, like avg(t[:i].x)")
        return syntax.Ref(alias_of(self._key, aliases), self._path, self._index)

    def aggregated(self, function: str) -> Operand:
        if self._index is not None:
            raise ValueError(f"{function} is of a group, not of one element: leave the index out")
        return Operand(
            lambda aliases: syntax.Aggregate(
                function, alias_of(self._key, aliases), self._path, self._before
            )
        )


def element(key: Key, index: Any) -> Reference:
    """`t[i + 1]`, `t[1]`, `t[-1]`, `t[:i]`; `t["x"]` is the attribute."""
    match index:
        case str():
            return Reference(key)[index]
        case Position(offset=offset):
            return Reference(key, index=syntax.Each(offset))
        case int():
            return Reference(key, index=syntax.At(index))
        case slice(start=None, stop=Position(offset=offset), step=None) if offset <= 1:
            return Reference(key, before=1 - offset)
    raise TypeError(f"{index!r} is no index; write i, i + 1, a number from 1, or :i")


def alias_of(key: Key, aliases: Aliases) -> str:
    if key not in aliases:
        raise ValueError("a condition names an event that is not part of the pattern")
    return aliases[key]


def param(name: str) -> Operand:
    return Operand(lambda _: syntax.Param(checked_name(name)))


def same(*paths: str) -> Operand:
    """All events agree on these attributes; `a.b` is the `b` of the object `a`."""
    split = tuple(tuple(checked_name(name) for name in path.split(".")) for path in paths)
    return Operand(lambda _: syntax.Same(split))


def is_null(value: Any) -> Operand:
    return Operand(lambda aliases: syntax.IsNull(tree(value, aliases)))


def is_not_null(value: Any) -> Operand:
    return Operand(lambda aliases: syntax.IsNull(tree(value, aliases), negated=True))


def like(value: Any, pattern: str) -> Operand:
    return Operand(lambda aliases: syntax.Like(tree(value, aliases), pattern))


def between(value: Any, low: Any, high: Any) -> Operand:
    return Operand(lambda aliases: syntax.Between(*trees((value, low, high), aliases)))  # type: ignore[arg-type]


def one_of(value: Any, *values: bool | float | str | None) -> Operand:
    among = tuple(map(syntax.Constant, values))
    return Operand(lambda aliases: syntax.In(tree(value, aliases), among))


def none_of(value: Any, *values: bool | float | str | None) -> Operand:
    among = tuple(map(syntax.Constant, values))
    return Operand(lambda aliases: syntax.In(tree(value, aliases), among, negated=True))


def call(function: str, *arguments: Any) -> Operand:
    """A function of the user's, by the name under which it is registered, or a built-in one."""
    return Operand(lambda aliases: syntax.Call(checked_name(function), trees(arguments, aliases)))


def abs_(value: Any) -> Operand:
    return call("abs", value)


def sqrt(value: Any) -> Operand:
    return call("sqrt", value)


def lower(value: Any) -> Operand:
    return call("lower", value)


def upper(value: Any) -> Operand:
    return call("upper", value)


def length(value: Any) -> Operand:
    return call("length", value)


def coalesce(*values: Any) -> Operand:
    return call("coalesce", *values)
