"""Joins, checked as far as their spelling goes.

`interval 2s` (within 2 s of each other), `interval -1s to 2s` (how long after the first),
`tumbling 10s`, `sliding 10s every 2s`. Sides are names with sections; values are paths that begin
with a side, `shot.payload.speed`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, get_args

from pydantic import BeforeValidator, ValidationInfo

from topology.join.config import JoinCondition, JoinedValue, JoinKind
from topology.spelling.problem import Fault, meant, refused, shown
from topology.spelling.section import Section
from topology.spelling.values import (
    MAX_LENGTH_NS,
    NS_PER,
    PATH,
    Given,
    check_length,
    check_slide,
    check_whole,
    in_unit,
    length_ns,
    named,
    or_fields,
    path_fault,
    section,
    text,
)

KINDS: Final[tuple[str, ...]] = get_args(JoinKind)
NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "interval": ("low_ns", "high_ns"),
    "tumbling": ("size_ns", "every_ns"),
    "sliding": ("size_ns", "every_ns"),
}
"""Which fields of the value mean something to a kind."""

MIN_SIDES: Final = 2
MAX_SIDES: Final = 8
MAX_VALUES: Final = 1_000
SIDES: Final = "write sides: {a: {stream: one}, b: {stream: other}}"
SIDES_IN_CODE: Final = (
    'write sides={"a": SideConfig(stream="one"), "b": SideConfig(stream="other")}'
)
VALUE: Final = "write it like {speed: shot.payload.speed}"
VALUE_IN_CODE: Final = 'write {"speed": JoinedValue("shot", ("payload", "speed"))}'
_ALIAS: Final = r"[A-Za-z_][A-Za-z0-9_]{0,99}"
_VALUE: Final = re.compile(rf"({_ALIAS})\.({PATH})", re.ASCII)
_JOINS: Final = "interval 2s, interval -1s to 2s, tumbling 10s, sliding 10s every 2s"

Key = Annotated[
    str, text(PATH, "a path into the payload", "write it like payload.player, ASCII names only")
]


class SideConfig(Section):
    """One side of a join. `stream` may be left out where there is one only; `type`: of these
    events alone; `key` where it is called otherwise than on the other sides."""

    stream: Annotated[str, text(r".{1,249}", "the name of a stream", "name a stream")] | None = None
    """The stream of this side. Name it if there are several."""
    type: Annotated[str, text(r".{1,249}", "a type of events", "name a type")] | None = None
    """The type of the events that take part. By default all do."""
    key: Key | None = None
    """The key of this side, if its path differs from that of the other sides."""


def _condition(value: Any, info: ValidationInfo) -> JoinCondition:
    value = or_fields(JoinCondition, value, info)
    if isinstance(value, JoinCondition):
        return _checked(value)
    if not isinstance(value, str):
        in_code = 'write JoinCondition("interval", -(10**9), 10**9), or text like "interval 1s"'
        raise refused(f"{shown(value)} is not a join", f"write one of: {_JOINS}", in_code)
    words = value.split()
    match words:
        case ["interval", reach]:
            reach_ns = _reach_ns(reach)
            return JoinCondition("interval", -reach_ns, reach_ns)
        case ["interval", low, "to", high]:
            return _interval(shown(value), _signed_ns(low), _signed_ns(high))
        case ["tumbling", size]:
            size_ns = length_ns(size)
            return JoinCondition("tumbling", size_ns=size_ns, every_ns=size_ns)
        case ["sliding", size, "every", step]:
            return _sliding(shown(value), length_ns(size), length_ns(step))
        case [("interval" | "tumbling" | "sliding") as kind, *_]:
            like = next(each for each in reversed(_JOINS.split(", ")) if each.startswith(kind))
            raise refused(f"{shown(value)} is not a join by {kind}", f"write it like {like}")
    raise refused(f"{shown(value)} is not a join", meant(words[0] if words else "", KINDS))


def _signed_ns(word: str) -> int:
    reach_ns = _reach_ns(word.removeprefix("-"))
    return -reach_ns if word.startswith("-") else reach_ns


def _reach_ns(word: str) -> int:
    reach_ns = in_unit(word, NS_PER, "2s")
    _check_reach(shown(word), reach_ns)
    return reach_ns


def _check_reach(said: str, reach_ns: int) -> None:
    if abs(reach_ns) > MAX_LENGTH_NS:
        raise refused(f"{said} is further than 100 years", "write a shorter one")


def _interval(said: str, low_ns: int, high_ns: int) -> JoinCondition:
    if low_ns > high_ns:
        raise refused(f"{said} ends before it begins", "write the smaller bound first")
    return JoinCondition("interval", low_ns, high_ns)


def _sliding(said: str, size_ns: int, every_ns: int) -> JoinCondition:
    check_slide(said, size_ns, every_ns)
    return JoinCondition("sliding", size_ns=size_ns, every_ns=every_ns)


def _checked(condition: JoinCondition) -> JoinCondition:
    """A value in code passes what its spelling passes."""
    kind, low_ns, high_ns, size_ns, every_ns = condition
    if kind not in KINDS:
        raise refused(f"{shown(kind)} is no kind of join", meant(kind, KINDS))
    for name, amount in zip(condition._fields[1:], condition[1:], strict=True):
        check_whole(name, amount)
        if amount != 0 and name not in NEEDS[kind]:
            raise refused(f"{name} means nothing to a join by {kind}", "leave it out")
    if kind == "interval":
        _check_reach("low_ns", low_ns)
        _check_reach("high_ns", high_ns)
        return _interval("the interval", low_ns, high_ns)
    check_length("size_ns", size_ns, "10**9")
    if kind == "sliding":
        check_length("every_ns", every_ns, "10**9")
        return _sliding("the window", size_ns, every_ns)
    if every_ns not in (0, size_ns):
        raise refused("a tumbling window's every_ns is its size", "leave it out")
    return condition._replace(every_ns=size_ns)


def _sides(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise refused(f"{shown(value)} is not a mapping", SIDES, SIDES_IN_CODE)
    if not MIN_SIDES <= len(value) <= MAX_SIDES:
        message = f"a join has {MIN_SIDES} to {MAX_SIDES} sides, not {len(value)}"
        raise refused(message, SIDES, SIDES_IN_CODE)
    for alias in value:
        if not isinstance(alias, str) or re.fullmatch(_ALIAS, alias, re.ASCII) is None:
            remedy = "call the side by a letter, then letters, digits and _"
            raise refused(f"{shown(alias)} cannot be the name of a side", remedy)
    return {alias: section(each) for alias, each in value.items()}


def _values(value: Any, info: ValidationInfo) -> dict[str, JoinedValue]:
    return named(
        value,
        lambda spelled: _value(or_fields(JoinedValue, spelled, info)),
        MAX_VALUES,
        VALUE,
        VALUE_IN_CODE,
    )


def _value(spelled: Any) -> JoinedValue | Fault:
    if isinstance(spelled, JoinedValue):
        side: Any = spelled.side
        wrong = path_fault(spelled.path)
        if not isinstance(side, str):
            wrong = f"{shown(side)} is not the name of a side"
        return (
            Fault((), wrong, VALUE, VALUE_IN_CODE)
            if wrong
            else spelled._replace(path=tuple(spelled.path))
        )
    found = _VALUE.fullmatch(spelled) if isinstance(spelled, str) else None
    if found is None:
        return Fault((), f"{shown(spelled)} is not a value of a side", VALUE, VALUE_IN_CODE)
    return JoinedValue(found[1], tuple(found[2].split(".")))


JoinSpelling = Annotated[
    JoinCondition, Given(_condition, {"type": "string", "examples": _JOINS.split(", ")})
]
Sides = Annotated[
    Mapping[str, SideConfig],
    BeforeValidator(_sides, json_schema_input_type=dict[str, SideConfig | None]),
]
Values = Annotated[
    Mapping[str, JoinedValue],
    Given(_values, {"type": "object", "additionalProperties": {"type": "string"}}),
]
