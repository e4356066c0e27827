"""Windows and what is computed of them: as a file spells them, and as values in code.

Windows: `tumbling 10s`, `sliding 10s every 2s`, `session 5s`, `count 100`.
Aggregates: `avg(payload.v)`; see `topology.window.aggregates.built_in`.

A value passes the checks that its spelling passes: `Window("sliding", 1, 2)` is refused as
`sliding 1ns every 2ns` is. What only a value can say is refused too, with the remedy in Python.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, get_args

from pydantic import ValidationInfo

from topology.spelling.problem import Fault, meant, refused, shown
from topology.spelling.values import (
    PATH,
    check_length,
    check_slide,
    check_whole,
    length_ns,
    named,
    or_fields,
    path_fault,
    share_ppm,
    user_functions_of,
)
from topology.window.aggregates.built_in import BUILT_IN
from topology.window.config import Aggregate, Window, WindowType

KINDS: Final[tuple[str, ...]] = get_args(WindowType)
NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "tumbling": ("size_ns",),
    "sliding": ("size_ns", "every_ns"),
    "session": ("size_ns",),
    "count": ("events",),
}
"""Which fields of the value mean something to a kind."""

WINDOWS: Final = "tumbling 10s, sliding 10s every 2s, session 5s, count 100"
AGGREGATE: Final = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": {
        "type": "string",
        "examples": [each.example for each in BUILT_IN.values()],
    },
}
"""What the file may hold there."""

MAX_AGGREGATES: Final = 1_000
MAX_QUANTILE_PPM: Final = 1_000_000
_CALL: Final = re.compile(r"([A-Za-z_0-9]{1,40})\s*\(([^()]{0,2000})\)", re.ASCII)


# -- windows ---------------------------------------------------------------------------------------


def read_window(value: Any, info: ValidationInfo) -> Window:
    value = or_fields(Window, value, info)
    if isinstance(value, Window):
        return _checked_window(value)
    if not isinstance(value, str):
        in_code = 'write Window("tumbling", 10**9), or text like "tumbling 1s"'
        raise refused(f"{shown(value)} is not a window", f"write one of: {WINDOWS}", in_code)
    words = value.split()
    match words:
        case ["tumbling", size]:
            return Window("tumbling", length_ns(size))
        case ["sliding", size, "every", step]:
            window = Window("sliding", length_ns(size), length_ns(step))
            check_slide(shown(value), window.size_ns, window.every_ns)
            return window
        case ["sliding", *_]:
            raise refused(f"{shown(value)} does not say how far it slides", _like("sliding"))
        case ["session", gap]:
            return Window("session", length_ns(gap))
        case ["count", number]:
            return Window("count", events=_events(value, number))
        case [("tumbling" | "session" | "count") as kind, *_]:
            raise refused(f"{shown(value)} is not a {kind} window", _like(kind))
    raise refused(f"{shown(value)} is not a window", meant(words[0] if words else "", KINDS))


def _like(kind: str) -> str:
    return "write it like " + next(each for each in WINDOWS.split(", ") if each.startswith(kind))


def _events(value: str, number: str) -> int:
    if not (number.isascii() and number.isdigit()) or len(number) > 18 or int(number) < 1:
        raise refused(f"{shown(value)} is not a number of events", "write it like count 100")
    return int(number)


def _checked_window(window: Window) -> Window:
    if window.kind not in KINDS:
        raise refused(f"{shown(window.kind)} is no kind of window", meant(window.kind, KINDS))
    for name, amount in zip(window._fields[1:], window[1:], strict=True):
        if name in NEEDS[window.kind]:
            check_whole(name, amount)
        elif amount != 0:
            raise refused(f"{name} means nothing to a {window.kind} window", "leave it out")
    if window.kind == "count":
        if window.events < 1:
            raise refused("a count window of no events", "give events, at least 1")
        return window
    check_length("size_ns", window.size_ns, "10**9")
    if window.kind == "sliding":
        check_length("every_ns", window.every_ns, "10**9")
        check_slide("the window", window.size_ns, window.every_ns)
    return window


# -- aggregates ------------------------------------------------------------------------------------


def read_aggregates(value: Any, info: ValidationInfo) -> dict[str, Aggregate]:
    own = user_functions_of(info).aggregates
    remedy, in_code = "write {name: count()}", 'write {"name": Aggregate("count")}'
    if value == {}:
        in_code = 'write at least one, like {"n": Aggregate("count")}'
        raise refused("is empty", "write at least one, like {n: count()}", in_code)
    return named(
        value,
        lambda spelled: _aggregate(or_fields(Aggregate, spelled, info), own),
        MAX_AGGREGATES,
        remedy,
        in_code,
    )


def _aggregate(spelled: Any, own: Collection[str]) -> Aggregate | Fault:
    if isinstance(spelled, Aggregate):
        return _checked_aggregate(spelled)
    call = _CALL.fullmatch(spelled.strip()) if isinstance(spelled, str) else None
    if call is None:
        message = f"{shown(spelled)} is not an aggregate"
        remedy = "write it like avg(payload.v), in quotes if it holds a comma"
        return Fault((), message, remedy, 'write Aggregate("avg", ("payload", "v"))')
    function, inner = call.groups()
    if function not in BUILT_IN and function not in own:
        remedy = f"{meant(function, (*BUILT_IN, *own))}, or bring it along (`functions`)"
        in_code = f'write Aggregate("{function}", ("payload", "v")), and give it by with_functions'
        return Fault((), f"`{function}` is not an aggregate", remedy, in_code)
    known = BUILT_IN.get(function)
    example = known.example if known else f"{function}(payload.v)"
    wanted = known.arguments if known else 1
    arguments = [each.strip() for each in inner.split(",")] if inner.strip() else []
    if len(arguments) != wanted:
        message = f"`{function}` takes {wanted} arguments, not {len(arguments)}"
        return Fault((), message, f"write it like {example}")
    if arguments and re.fullmatch(PATH, arguments[0], re.ASCII) is None:
        message = f"{shown(arguments[0])} is not a path"
        return Fault((), message, f"write it like {example}")
    path = tuple(arguments[0].split(".")) if arguments else ()
    if function != "quantile":
        return Aggregate(function, path)
    return _quantile(path, arguments[1])


def _quantile(path: tuple[str, ...], share: str) -> Aggregate | Fault:
    remedy = f"write it like {BUILT_IN['quantile'].example}"
    found = re.fullmatch(r"(?:0?\.[0-9]{1,6}|0|1)", share, re.ASCII)
    if found is None:
        return Fault((), f"{shown(share)} is not a quantile between 0 and 1", remedy)
    return Aggregate("quantile", path, share_ppm(f"0{share}", 0, MAX_QUANTILE_PPM, remedy))


def _checked_aggregate(aggregate: Aggregate) -> Aggregate | Fault:
    """A name that is not built in may yet be given (`Topology.with_functions`)."""
    function: Any = aggregate.function
    path, quantile_ppm = aggregate.path, aggregate.quantile_ppm
    if not isinstance(function, str):
        remedy = 'write Aggregate("avg", ("payload", "v"))'
        return Fault((), f"{shown(function)} is not the name of an aggregate", remedy)
    known = BUILT_IN.get(function)
    if known is not None and not known.arguments:
        if path:
            message = f"`{function}` takes no path"
            return Fault((), message, f'write Aggregate("{function}")')
    elif fault := path_fault(path):
        remedy = f'write Aggregate("{function}", ("payload", "v"))'
        return Fault((), f"`{function}`: {fault}", remedy)
    if function != "quantile":
        if quantile_ppm != 0:
            return Fault((), f"quantile_ppm means nothing to `{function}`", "leave it out")
    elif type(quantile_ppm) is not int or not 0 < quantile_ppm <= MAX_QUANTILE_PPM:
        message = f"quantile_ppm is {shown(quantile_ppm)}, which is no quantile"
        return Fault((), message, "write 1 to 1_000_000, like 990_000 for 0.99; for 0 there is min")
    return aggregate._replace(path=tuple(path))
