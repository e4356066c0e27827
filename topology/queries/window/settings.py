"""Defines the settings of a window query: its windows, and the values computed from them.

Windows: `tumbling 10s`, `sliding 10s every 2s`, `session 5s`, `count 100`. Tumbling and sliding
windows may be cut by local time: `tumbling 8h from 06:00 in Europe/Berlin`, `tumbling 1w`
(`topology.queries.window.local_slices`).

Aggregates: `avg(payload.v)`; see `topology.queries.window.aggregates.built_in`.

All bounds are per query and partition:

* `max_windows`: windows that are open or kept for corrections, over all keys. It counts panes for
  sliding windows, cores for sessions, and keys for count windows. At the bound, windows kept for
  corrections are given up first, beginning with the oldest. If all are open, events that would open
  one more are left out. Both cases are counted.
* `max_edge_events`: events of one window that may or may not belong to it. Beyond this bound the
  window is emitted by corrected timestamps alone and without bounds.
* `max_recount`: events per key that a count window keeps for corrections, and values of `time_avg`
  that are kept per key and slice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple

from pydantic import BeforeValidator, ValidationInfo

from topology.answer.query.fields import strip_payload
from topology.answer.query.zone import check_zone_name
from topology.answer.rules import FINAL
from topology.answer.settings import PLAIN, THESIS3, Computed, OfStream, key_path
from topology.base.paths import Names as Path
from topology.base.paths import guess_path, parse_payload_path, split_arguments
from topology.order.clock.settings import ClockConfig
from topology.queries.window.aggregates.built_in import BUILT_IN, RANKED, TIME_AVG
from topology.spelling.kinds import MAX_SLICES, Kinds
from topology.spelling.problem import Fault, format_value, make_refusal, make_refusal_at, suggest
from topology.spelling.section import Section, Unspelled
from topology.spelling.values import (
    MILLION,
    NS_PER,
    Count,
    DurationNs,
    Given,
    Named,
    PositiveNs,
    join_path,
    like,
    one_of,
    share_ppm,
    text_names,
    user_functions_of,
)

WindowType = Literal["tumbling", "sliding", "session", "count"]

TUMBLING: Final = "tumbling"
SLIDING: Final = "sliding"
SESSION: Final = "session"
COUNT: Final = "count"


NS_PER_MIN: Final = NS_PER["min"]
NS_PER_DAY: Final = NS_PER["d"]
NS_PER_WEEK: Final = 7 * NS_PER_DAY
MONDAY_NS: Final = 4 * NS_PER_DAY
"""The first Monday after 1970-01-01."""


class Window(NamedTuple):
    """The kind and the size of a query's windows.

    `size_ns` is the gap of a session, and `events` the size of a count window. Windows that
    `is_local` begin `from_ns` after midnight of 1970-01-01 in `zone`, by its clock. Without a zone
    it is UTC.
    """

    kind: WindowType
    size_ns: int = 0
    every_ns: int = 0
    events: int = 0
    from_ns: int = 0
    zone: str = ""

    @property
    def step_ns(self) -> int:
        """The distance between the starts of consecutive windows."""
        return self.size_ns if self.kind == TUMBLING else self.every_ns

    @property
    def is_local(self) -> bool:
        """Whether windows are cut by the local time of a zone, and not from the Unix epoch."""
        return bool(self.from_ns or self.zone)

    def __str__(self) -> str:
        weeks = self.from_ns >= MONDAY_NS and self.step_ns % NS_PER_WEEK == 0
        begin_ns = self.from_ns - MONDAY_NS if weeks else self.from_ns
        size = f" {_length(self.size_ns, weeks)}" if self.size_ns or not self.events else ""
        step = f" every {_length(self.every_ns, weeks)}" if self.every_ns else ""
        events = f" {self.events}" if self.events else ""
        minutes = begin_ns // NS_PER_MIN
        begin = f" from {minutes // 60:02}:{minutes % 60:02}" if begin_ns else ""
        zone = f" in {self.zone}" if self.zone else ""
        return f"{self.kind}{size}{step}{events}{begin}{zone}"


def _length(length_ns: int, in_weeks: bool) -> str:
    return f"{length_ns // NS_PER_WEEK}w" if in_weeks else f"{length_ns}ns"


class Aggregate(NamedTuple):
    """The call of an aggregate function in a query: its name, its arguments and its filter.

    `path` leads to the value, like `("payload", "force")`; it is empty for `count` alone.
    `quantile_ppm` is the share of `quantile`, 990_000 for 0.99; other functions do not use it. `by`
    leads to the second field of `max_by` and `min_by`. Only events that meet the condition `where`
    are aggregated, or all if it is empty.
    """

    function: str
    path: Path = ()
    quantile_ppm: int = 0
    by: Path = ()
    where: str = ""

    @property
    def meaning(self) -> tuple[Any, ...]:
        """The fields as digests have them, without an empty `by` and an empty `where`."""
        return (*self[:3], *filter(None, self[3:]))

    def __repr__(self) -> str:
        said = [name for name in self._fields if name not in ("by", "where") or getattr(self, name)]
        return f"Aggregate({', '.join(f'{name}={getattr(self, name)!r}' for name in said)})"

    def __str__(self) -> str:
        arguments = [join_path(self.path)] if self.path else []
        if self.function == "quantile" or self.quantile_ppm:
            arguments.append(_format_share(self.quantile_ppm))
        if self.by or self.function in RANKED:
            arguments.append(join_path(self.by))
        where = f" where {self.where}" if self.where else ""
        return f"{self.function}({', '.join(arguments)}){where}"


def _format_share(ppm: Any) -> str:
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
LOCAL_EXAMPLES: Final = ("tumbling 1d in Europe/Berlin", "tumbling 8h from 06:00", "tumbling 1w")
MAX_AGGREGATES: Final = 1_000
MAX_WEEK_DIGITS: Final = 6
_LOCAL: Final = re.compile(r"(.*?)(?:\sfrom\s+(\S+))?(?:\sin\s+(\S+))?\s*", re.DOTALL)
_CLOCK: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)
_WEEKS: Final = re.compile(r"([0-9.]+)w(?:k|ks|eek|eeks)?", re.ASCII | re.IGNORECASE)
_MONTHS: Final = re.compile(r"[0-9.]*(M|mo|mon|months?|q|quarters?|y|yr|years?)", re.ASCII)
_CALL: Final = re.compile(
    r"([A-Za-z_0-9]{1,40})\s*\(((?:`[^`]*`|[^()`]){0,2000})\)(?:\s*\b(?i:where)\s+(\S.*))?",
    re.ASCII | re.DOTALL,
)


def _read_window(value: Any, info: ValidationInfo) -> Window:
    """Return the windows that `value` describes: text, or a window made in code."""
    if isinstance(value, Window):
        WINDOWS.check_amounts(value)
        text = str(value) if type(value.from_ns) is int else ""
        if not text or (found := _parse_window(text, info)) != value:
            remedy = "write whole minutes below the step in from_ns, and a name in zone"
            raise make_refusal(f"{format_value(value)} has no text", remedy)
        return found
    return _parse_window(value, info) if isinstance(value, str) else WINDOWS.read(value, info)


def _parse_window(text: str, info: ValidationInfo) -> Window:
    parts = _LOCAL.fullmatch(text)
    assert parts is not None, "the expression matches any text"
    plain, begin, zone = parts.groups()
    words = plain.split()
    if not {"from", "in"}.isdisjoint(map(str.lower, words)):
        remedy = "write it like tumbling 8h from 06:00 in Europe/Berlin"
        raise make_refusal(
            f"{format_value(text)} does not end with `from HH:MM` and `in ZONE`", remedy
        )
    for word in words[1:]:
        if _MONTHS.fullmatch(word):
            message = f"{format_value(text)} has windows of months or years, which are not built"
            raise make_refusal(message, "write days or weeks, like tumbling 1d or tumbling 1w")
    found: Window = WINDOWS.read(" ".join(map(_weeks_to_days, words)), info)
    is_weekly = found.kind in (TUMBLING, SLIDING) and words[-1].endswith("w")
    if not (begin or zone or is_weekly):
        return found
    if found.kind not in (TUMBLING, SLIDING):
        remedy = "leave out `from` and `in`"
        raise make_refusal(
            f"{format_value(text)}: a {found.kind} window begins with an event", remedy
        )
    step_ns = found.step_ns
    if step_ns % NS_PER_DAY and NS_PER_DAY % step_ns:
        remedy = "write a length that divides a day, like 8h, or whole days"
        raise make_refusal(f"{format_value(text)} would begin at other times each day", remedy)
    if found.size_ns % step_ns:
        remedy = "make the size a whole number of steps"
        raise make_refusal(f"{format_value(text)} is not a whole number of its steps", remedy)
    from_ns = (MONDAY_NS if is_weekly else 0) + (_parse_time_of_day_ns(begin) if begin else 0)
    return found._replace(from_ns=from_ns % step_ns, zone=check_zone_name(zone) if zone else "")


def _weeks_to_days(word: str) -> str:
    """Return a number of weeks as days, and any other word as it is."""
    weeks = _WEEKS.fullmatch(word)
    if weeks is None:
        return word
    if word != f"{weeks[1]}w" or not weeks[1].isdigit() or len(weeks[1]) > MAX_WEEK_DIGITS:
        raise make_refusal(
            f"{format_value(word)} is not a number of weeks", "write whole ones, like 1w"
        )
    return f"{7 * int(weeks[1])}d"


def _parse_time_of_day_ns(text: str) -> int:
    found = _CLOCK.fullmatch(text)
    if found is None:
        raise make_refusal(f"{format_value(text)} is not a time of day", "write it like 06:00")
    return (60 * int(found[1]) + int(found[2])) * NS_PER_MIN


def _read_aggregate(value: Any, info: ValidationInfo) -> Aggregate:
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
            raise make_refusal(
                f"{format_value(path_given)} is text, not a path", f"write the path {keys}"
            )
        value = str(value)
    call = _CALL.fullmatch(value.strip()) if isinstance(value, str) else None
    if call is None:
        remedy = "write it like avg(payload.v), in quotes if it contains a comma"
        raise make_refusal(f"{format_value(value)} is not an aggregate", remedy)
    function, inner, condition = call.groups()
    where = _read_filter(condition, info) if condition else ""
    if function not in BUILT_IN and function not in own:
        remedy = f"{suggest(function, (*BUILT_IN, *own))}, or add it to the `functions` file"
        raise make_refusal(f"`{function}` is not an aggregate", remedy)
    known = BUILT_IN.get(function)
    remedy = f"write it like {known.example if known else f'{function}(payload.v)'}"
    wanted = known.arguments if known else 1
    arguments = split_arguments(inner) if inner.strip() else []
    if len(arguments) != wanted:
        raise make_refusal(f"`{function}` takes {wanted} arguments, not {len(arguments)}", remedy)
    paths = arguments if function in RANKED else arguments[:1]
    for at, text in enumerate(paths):
        if parse_payload_path(text) is None:
            likely = [*arguments[:at], guess_path(text), *arguments[at + 1 :]]
            remedy = f"write {function}({', '.join(likely)})"
            raise make_refusal(f"{format_value(text)} is not a path into the payload", remedy)
    path, by = [*(parse_payload_path(each) or () for each in paths), (), ()][:2]
    if function != "quantile":
        return Aggregate(function, path, by=by, where=where)
    if re.fullmatch(r"0?\.[0-9]{1,6}|0|1", arguments[1]) is None:
        raise make_refusal(
            f"{format_value(arguments[1])} is not a quantile between 0 and 1", remedy
        )
    share = share_ppm(f"0{arguments[1]}", 0, MILLION, remedy)
    return Aggregate(function, path, share, where=where)


def _read_filter(value: Any, _: ValidationInfo) -> str:
    """Return the text of a condition on one event, as it is always written."""
    # The language of conditions takes long to import, and most files have no filter.
    from topology.queries.pattern.language.expression_text import expression_text
    from topology.queries.pattern.language.filter import read_filter
    from topology.queries.pattern.tree.errors import QueryRefused

    if not isinstance(value, str) or not value.strip():
        raise make_refusal(
            f"{format_value(value)} is not a condition", "write it like payload.t > 80"
        )
    try:
        return expression_text(read_filter(value))
    except QueryRefused as problem:
        error = problem.errors[0]
        message = f"{error.message} (column {error.column} of the condition)"
        remedy = error.hint or "write it like payload.t > 80"
        raise make_refusal_at(Fault((), message, remedy, is_yaml=False)) from None


Call = Annotated[
    Aggregate,
    Given(
        _read_aggregate,
        {"type": "string", "examples": [one.example for one in BUILT_IN.values()]},
        has_text=True,
        instead="write it like avg(payload.v)",
    ),
]


CALLS: Final = Named("{name: count()}", MAX_AGGREGATES, least=1)
Where = Annotated[
    str,
    Given(_read_filter, {"type": "string", "title": "condition", "examples": ["payload.t > 80"]}),
]
Calls = Annotated[Mapping[str, Call], BeforeValidator(text_names), CALLS]
Spelled = Annotated[Window, like(_read_window, *EXAMPLES, *LOCAL_EXAMPLES)]


Fill = Literal["zero", "last", "null"]
ZERO: Final = "zero"
LAST: Final = "last"
HOUR_NS: Final = 3_600 * 10**9


class EmptyConfig(Section):
    """The results of windows without events."""

    value: Annotated[Fill, one_of(Fill)] = "zero"
    """The values of such a window. `count` and `distinct` are 0, and `time_avg` is computed. With
    `last` all others are as in the key's last window with events. Otherwise they are null, but with
    `zero` sums are 0."""
    for_ns: PositiveNs = HOUR_NS
    """How long a silent key has such windows: the last one begins within this time after the key's
    last window with events. Lower it if many keys end, raise it if they come back later."""

    @classmethod
    def unfold(cls, value: Any) -> Any:
        """Return the mapping that a word, true or null means, and None for false."""
        if isinstance(value, bool):
            return {"value": ZERO} if value else None
        if value is None or isinstance(value, str):
            return {"value": value or "null"}
        if isinstance(value, Mapping) and value.get("value", ZERO) is None:
            return {**value, "value": "null"}
        return value


Empty = Annotated[
    EmptyConfig | None,
    BeforeValidator(EmptyConfig.unfold, json_schema_input_type=EmptyConfig | Fill | bool | None),
]


class WindowQuery(Computed, OfStream):
    """A query of windows with aggregates; `clock` has the clock settings of its stream."""

    kind: ClassVar = "window"

    window: Spelled
    """The windows of a window query. `in ZONE` and `from HH:MM` cut tumbling and sliding ones by
    local time, and `1w` begins on Monday. A day on which clocks are set has 23 or 25 hours."""
    where: Where | None = None
    """The condition on events that the windows have, like `payload.t > 80 AND type = 'reading'`. It
    is a condition of patterns on one event (docs/reference/pattern_grammar.md)."""
    aggregate: Calls
    """The names of the values, and how each is computed from a window. `count() where payload.t >
    80` is computed from the events that meet the condition."""
    early_ns: DurationNs = 0
    """How often open windows that have changed are emitted. `0ns` emits none early. Set it if
    readers cannot wait for the end of a window."""
    max_windows: Count = 1_000_000
    """The largest number of windows that are open or kept for corrections, over all keys. Raise it
    if there are more keys."""
    empty: Empty = None
    """Emits windows without events, too: `zero`, `last` or `null`, or `{value: zero, for: 1h}`.
    They begin after the first event of a key."""
    hold_ns: PositiveNs = 24 * HOUR_NS
    """How long the last value of a key holds in `time_avg`. Raise it if sources send changes
    alone, lower it if a silent source says nothing of the value."""
    max_edge_events: Annotated[Count, Unspelled()] = 1_000
    """The largest number of events of one window that may or may not belong to it."""
    max_recount: Annotated[Count, Unspelled()] = 10_000
    """The largest number of events per key that a count window keeps for corrections, and of values
    that `time_avg` keeps for each key and slice."""
    clock: Annotated[ClockConfig, Unspelled()] = ClockConfig.make_default()
    """How the clocks of its stream are trusted."""

    @property
    def outputs(self) -> dict[str, Aggregate]:
        """The aggregates by name, with paths that begin inside the payload."""
        return {
            name: each._replace(path=strip_payload(each.path), by=strip_payload(each.by))
            for name, each in self.aggregate.items()
        }

    @property
    def of_cells(self) -> list[str]:
        """The names of the aggregates that depend on the events of a window alone."""
        return [name for name, each in self.outputs.items() if each.function != TIME_AVG]

    @property
    def is_filled(self) -> bool:
        """Whether windows depend on earlier events of their key (`window.empty`)."""
        return self.empty is not None or len(self.of_cells) < len(self.outputs)

    @property
    def zone_ns(self) -> int:
        """The smallest time error to assume for an event."""
        return self.clock.max_error_ns if self.uncertainty == THESIS3 else 0

    @property
    def emits_every_ns(self) -> int:
        """The interval at which open windows are emitted; 0 if they are not."""
        return 0 if self.answer == FINAL else self.early_ns

    def fingerprint(self) -> bytes:
        """Return bytes that are equal for queries with the same name and results."""
        kind, size_ns, _, events, *local = self.window
        local = local if self.window.is_local else []  # So ids from before there were zones stay.
        what = (kind, size_ns, self.window.step_ns, events, key_path(self.key), *local)
        if self.where:
            what = (*what, self.where)
        outputs = [(name, *each.meaning) for name, each in self.outputs.items()]
        filled = [("empty", *self.empty)] if self.empty is not None else []
        held = [("hold", self.hold_ns)] if len(self.of_cells) < len(outputs) else []
        return repr((self.name, what, outputs, self.uncertainty or PLAIN, *filled, *held)).encode()

    def faults(self) -> Iterator[Fault]:
        """Yield the faults of `empty`, `hold` and `time_avg`, and of the target."""
        yield from super().faults()
        timed = [name for name in self.outputs if name not in self.of_cells]
        if "hold_ns" in self.model_fields_set and not timed:
            yield Fault(("hold",), "has no effect without `time_avg`", "leave it out")
        if self.window.kind in (SESSION, COUNT):
            remedy = "write a tumbling or sliding window"
            if self.empty is not None:
                message = f"a {self.window.kind} window begins with an event, so none is empty"
                yield Fault(("empty",), message, f"leave it out, or {remedy}")
            for name in timed:
                message = (
                    f"`{TIME_AVG}` needs windows at fixed times, not {self.window.kind} windows"
                )
                yield Fault(("aggregate", name), message, remedy)
        elif self.empty is not None and self.empty.for_ns > MAX_SLICES * self.window.step_ns:
            message = f"each silent key would have more than {MAX_SLICES} windows without events"
            yield Fault(("empty", "for"), message, "write a shorter time, or a longer window")
