"""Defines the settings of a window query: its windows, and the values computed from them.

Windows: `tumbling 10s`, `sliding 10s every 2s`, `session 5s`, `count 100`.

Aggregates: `avg(payload.v)`; see `topology.window.aggregates.built_in`.

All bounds are per query and partition:

* `max_windows`: windows that are open or kept for corrections, over all keys. It counts panes for
  sliding windows, cores for sessions, and keys for count windows. At the bound, windows kept for
  corrections are given up first, beginning with the oldest. If all are open, events that would open
  one more are left out. Both cases are counted.
* `max_edge_events`: events of one window that may or may not belong to it. Beyond this bound the
  window is emitted by corrected timestamps alone and without bounds.
* `max_recount`: events per key that a count window keeps for corrections.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import BeforeValidator, ValidationInfo

from topology.answer.rules import FINAL
from topology.answer.settings import PLAIN, THESIS3, AnswerSettings, key_path
from topology.clock.settings import ClockConfig
from topology.model.paths import Names as Path
from topology.model.paths import arguments_of, likely_path, payload_path
from topology.query.fields import path_of
from topology.spelling.kinds import Kinds
from topology.spelling.problem import meant, refused, shown
from topology.spelling.section import Unspelled
from topology.spelling.values import (
    MILLION,
    Count,
    DurationNs,
    Given,
    Named,
    dotted,
    share_ppm,
    text_names,
    user_functions_of,
)
from topology.window.aggregates.built_in import BUILT_IN

WindowType = Literal["tumbling", "sliding", "session", "count"]

TUMBLING: Final = "tumbling"
SLIDING: Final = "sliding"
SESSION: Final = "session"
COUNT: Final = "count"


class Window(NamedTuple):
    """The kind and the size of a query's windows.

    `size_ns` is the gap of a session, and `events` the size of a count window.
    """

    kind: WindowType
    size_ns: int = 0
    every_ns: int = 0
    events: int = 0

    @property
    def step_ns(self) -> int:
        """The distance between the starts of consecutive windows."""
        return self.size_ns if self.kind == TUMBLING else self.every_ns

    def __str__(self) -> str:
        size = f" {self.size_ns}ns" if self.size_ns or not self.events else ""
        step = f" every {self.every_ns}ns" if self.every_ns else ""
        events = f" {self.events}" if self.events else ""
        return f"{self.kind}{size}{step}{events}"


class Aggregate(NamedTuple):
    """The call of an aggregate function in a query: its name and its arguments.

    `path` leads to the value, like `("payload", "force")`; it is empty for `count` alone.
    `quantile_ppm` is the share of `quantile`, 990_000 for 0.99; other functions do not use it.
    """

    function: str
    path: Path = ()
    quantile_ppm: int = 0

    def __str__(self) -> str:
        arguments = [dotted(self.path)] if self.path else []
        if self.function == "quantile" or self.quantile_ppm:
            arguments.append(_share_text(self.quantile_ppm))
        return f"{self.function}({', '.join(arguments)})"


def _share_text(ppm: Any) -> str:
    """Return the text of a share in a call, or an invalid text if `ppm` is not an integer."""
    if type(ppm) is not int:
        return f"{ppm} millionths"
    return str(ppm // MILLION) if ppm in (0, MILLION) else f"{ppm / MILLION:f}"


EXAMPLES: Final = ("tumbling 10s", "sliding 10s every 2s", "session 5s", "count 100")
WINDOWS: Final = Kinds(
    Window,
    "window",
    "a {} window",
    ("tumbling size_ns", "sliding size_ns every every_ns", "session size_ns", "count events"),
    EXAMPLES,
)
MAX_AGGREGATES: Final = 1_000
_CALL: Final = re.compile(r"([A-Za-z_0-9]{1,40})\s*\(((?:`[^`]*`|[^()`]){0,2000})\)", re.ASCII)


def _aggregate(value: Any, info: ValidationInfo) -> Aggregate:
    """Return the aggregate that `value` describes: a call as text, or an aggregate made in code.

    An aggregate made in code may name a function that is registered later.
    """
    own = (*user_functions_of(info).aggregates,)
    if isinstance(value, Aggregate):
        function: Any = value.function
        own = (function,) if isinstance(function, str) else ()
        path_given: Any = value.path
        if isinstance(path_given, str):
            keys = tuple(path_given.split("."))
            raise refused(f"{shown(path_given)} is text, not a path", f"write the path {keys}")
        value = str(value)
    call = _CALL.fullmatch(value.strip()) if isinstance(value, str) else None
    if call is None:
        remedy = "write it like avg(payload.v), in quotes if it contains a comma"
        raise refused(f"{shown(value)} is not an aggregate", remedy)
    function, inner = call.groups()
    if function not in BUILT_IN and function not in own:
        remedy = f"{meant(function, (*BUILT_IN, *own))}, or add it to the `functions` file"
        raise refused(f"`{function}` is not an aggregate", remedy)
    known = BUILT_IN.get(function)
    remedy = f"write it like {known.example if known else f'{function}(payload.v)'}"
    wanted = known.arguments if known else 1
    arguments = arguments_of(inner) if inner.strip() else []
    if len(arguments) != wanted:
        raise refused(f"`{function}` takes {wanted} arguments, not {len(arguments)}", remedy)
    path = payload_path(arguments[0]) if arguments else ()
    if path is None:
        near = f"{function}({likely_path(arguments[0])}{''.join(f', {a}' for a in arguments[1:])})"
        raise refused(f"{shown(arguments[0])} is not a path into the payload", f"write {near}")
    if function != "quantile":
        return Aggregate(function, path)
    if re.fullmatch(r"0?\.[0-9]{1,6}|0|1", arguments[1]) is None:
        raise refused(f"{shown(arguments[1])} is not a quantile between 0 and 1", remedy)
    return Aggregate(function, path, share_ppm(f"0{arguments[1]}", 0, MILLION, remedy))


Call = Annotated[
    Aggregate,
    Given(
        _aggregate,
        {"type": "string", "examples": [one.example for one in BUILT_IN.values()]},
        has_text=True,
        instead="write it like avg(payload.v)",
    ),
]


CALLS: Final = Named("{name: count()}", MAX_AGGREGATES, least=1)
Calls = Annotated[Mapping[str, Call], BeforeValidator(text_names), CALLS]
Spelled = Annotated[
    Window, Given(WINDOWS.read, {"type": "string", "examples": [*EXAMPLES]}, has_text=True)
]


class WindowSettings(AnswerSettings):
    """The settings of a window query; `clock` has the clock settings of its stream."""

    window: Spelled | None = None
    """The windows of a window query."""
    aggregate: Calls | None = None
    """The names of the values, and how each is computed from a window."""
    early_ns: DurationNs = 0
    """How often open windows that have changed are emitted. `0ns` emits none early. Set it if
    readers cannot wait for the end of a window."""
    max_windows: Count = 1_000_000
    """The largest number of windows that are open or kept for corrections, over all keys. Raise it
    if there are more keys."""
    max_edge_events: Annotated[Count, Unspelled()] = 1_000
    """The largest number of events of one window that may or may not belong to it."""
    max_recount: Annotated[Count, Unspelled()] = 10_000
    """The largest number of events per key that a count window keeps for corrections."""
    clock: Annotated[ClockConfig, Unspelled()] = ClockConfig.by_default()
    """How the clocks of its stream are trusted."""

    @property
    def windows(self) -> Window:
        """The windows of the query; call this only if they are given."""
        assert self.window is not None
        return self.window

    @property
    def outputs(self) -> dict[str, Aggregate]:
        """The aggregates by name, with paths that begin inside the payload."""
        aggregates = (self.aggregate or {}).items()
        return {name: each._replace(path=path_of(each.path)) for name, each in aggregates}

    @property
    def zone_ns(self) -> int:
        """The smallest time error to assume for an event."""
        return self.clock.max_error_ns if self.uncertainty == THESIS3 else 0

    @property
    def emits_every_ns(self) -> int:
        """The interval at which open windows are emitted; 0 if they are not."""
        return 0 if self.answer == FINAL else self.early_ns


def fingerprint(query: WindowSettings) -> bytes:
    """Return bytes that are equal for queries with the same name and results."""
    kind, size_ns, _, events = windows = query.windows
    what = (kind, size_ns, windows.step_ns, events, key_path(query.key))
    outputs = [(name, *each) for name, each in query.outputs.items()]
    return repr((query.name, what, outputs, query.uncertainty or PLAIN)).encode()
