"""Joins, checked as far as their spelling goes.

`interval 2s` (within 2 s of each other), `interval -1s to 2s` (how long after the first),
`tumbling 10s`, `sliding 10s every 2s`. Sides are names with sections; values are paths that begin
with a side, `shot.payload.speed`.

Proved by: tests/topology/config/test_join.py
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import BeforeValidator, ValidationInfo

from topology.config.problem import Fault, meant, refused, refused_at, shown
from topology.config.spelling import (
    NS_PER,
    check_slide,
    given,
    in_unit,
    length_ns,
    section,
    text,
)
from topology.config.stream import Section
from topology.model.lengths import MAX_LENGTH_NS

JoinKind = Literal["interval", "tumbling", "sliding"]
Outer = Literal["inner", "left", "full"]

MIN_SIDES: Final = 2
MAX_SIDES: Final = 8
PATH: Final = r"payload(?:\.[A-Za-z_][A-Za-z0-9_-]{0,99}){0,20}"
_ALIAS: Final = r"[A-Za-z_][A-Za-z0-9_]{0,99}"
_VALUE: Final = re.compile(rf"({_ALIAS})\.({PATH})", re.ASCII)
_JOINS: Final = "interval 2s, interval -1s to 2s, tumbling 10s, sliding 10s every 2s"

Key = Annotated[
    str, text(PATH, "a path into the payload", "write it like payload.player, ASCII names only")
]


class JoinCondition(NamedTuple):
    """When events belong together. `low_ns` and `high_ns`: how long after the first side's the
    others are; `every_ns` of a tumbling window is its size."""

    kind: JoinKind
    low_ns: int = 0
    high_ns: int = 0
    size_ns: int = 0
    every_ns: int = 0


class JoinedValue(NamedTuple):
    """`path` begins with `payload`."""

    side: str
    path: tuple[str, ...]


class SideConfig(Section):
    """One side of a join. `stream` may be left out where there is one only; `type`: of these
    events alone; `key` where it is called otherwise than on the other sides."""

    stream: Annotated[str, text(r".{1,249}", "the name of a stream", "name a stream")] | None = None
    type: Annotated[str, text(r".{1,249}", "a type of events", "name a type")] | None = None
    key: Key | None = None


def _condition(value: Any, _: ValidationInfo) -> JoinCondition:
    if isinstance(value, JoinCondition):
        return value
    if not isinstance(value, str):
        raise refused(f"{shown(value)} is not a join", f"write one of: {_JOINS}")
    words = value.split()
    match words:
        case ["interval", reach]:
            reach_ns = _reach_ns(reach)
            return JoinCondition("interval", -reach_ns, reach_ns)
        case ["interval", low, "to", high]:
            return _interval(value, _signed_ns(low), _signed_ns(high))
        case ["tumbling", size]:
            size_ns = length_ns(size)
            return JoinCondition("tumbling", size_ns=size_ns, every_ns=size_ns)
        case ["sliding", size, "every", step]:
            return _sliding(value, length_ns(size), length_ns(step))
        case [("interval" | "tumbling" | "sliding") as kind, *_]:
            like = next(each for each in reversed(_JOINS.split(", ")) if each.startswith(kind))
            raise refused(f"{shown(value)} is not a join by {kind}", f"write it like {like}")
    kinds = ("interval", "tumbling", "sliding")
    raise refused(f"{shown(value)} is not a join", meant(words[0] if words else "", kinds))


def _signed_ns(word: str) -> int:
    reach_ns = _reach_ns(word.removeprefix("-"))
    return -reach_ns if word.startswith("-") else reach_ns


def _reach_ns(word: str) -> int:
    reach_ns = in_unit(word, NS_PER, "2s")
    if reach_ns > MAX_LENGTH_NS:
        raise refused(f"{shown(word)} is further than 100 years", "write a shorter one")
    return reach_ns


def _interval(value: str, low_ns: int, high_ns: int) -> JoinCondition:
    if low_ns > high_ns:
        raise refused(f"{shown(value)} ends before it begins", "write the smaller bound first")
    return JoinCondition("interval", low_ns, high_ns)


def _sliding(value: str, size_ns: int, every_ns: int) -> JoinCondition:
    check_slide(value, size_ns, every_ns)
    return JoinCondition("sliding", size_ns=size_ns, every_ns=every_ns)


def _sides(value: Any) -> Any:
    example = "write sides: {a: {stream: one}, b: {stream: other}}"
    if not isinstance(value, Mapping):
        raise refused(f"{shown(value)} is not a mapping", example)
    if not MIN_SIDES <= len(value) <= MAX_SIDES:
        message = f"a join has {MIN_SIDES} to {MAX_SIDES} sides, not {len(value)}"
        raise refused(message, example)
    for alias in value:
        if not isinstance(alias, str) or re.fullmatch(_ALIAS, alias, re.ASCII) is None:
            remedy = "call the side by a letter, then letters, digits and _"
            raise refused(f"{shown(alias)} cannot be the name of a side", remedy)
    return {alias: section(each) for alias, each in value.items()}


def _values(value: Any, _: ValidationInfo) -> dict[str, JoinedValue]:
    example = "write it like {speed: shot.payload.speed}"
    if not isinstance(value, Mapping):
        raise refused(f"{shown(value)} is not a mapping", example)
    faults: list[Fault] = []
    read: dict[str, JoinedValue] = {}
    for name, spelled in value.items():
        if isinstance(spelled, JoinedValue):
            read[name] = spelled
            continue
        found = _VALUE.fullmatch(spelled) if isinstance(spelled, str) else None
        if not isinstance(name, str):
            faults.append(Fault((str(name),), f"{shown(name)} is not text", "write it in quotes"))
        elif found is None:
            faults.append(Fault((name,), f"{shown(spelled)} is not a value of a side", example))
        else:
            read[name] = JoinedValue(found[1], tuple(found[2].split(".")))
    if faults:
        raise refused_at(*faults)
    return read


JoinSpelling = Annotated[
    JoinCondition, given(_condition, {"type": "string", "examples": _JOINS.split(", ")})
]
Sides = Annotated[
    Mapping[str, SideConfig],
    BeforeValidator(_sides, json_schema_input_type=dict[str, SideConfig | None]),
]
Values = Annotated[
    Mapping[str, JoinedValue],
    given(_values, {"type": "object", "additionalProperties": {"type": "string"}}),
]
