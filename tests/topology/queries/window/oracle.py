"""An oracle of windows: results computed slowly by definition from the sorted input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from math import sqrt
from sys import float_info
from typing import Any

from tests.kit.queries import Output
from tests.topology.queries.window.streams import place
from topology.base.event import DATA, Event
from topology.base.result import EMIT, RETRACT, UPDATE, WindowResult
from topology.queries.window.aggregates.sketch import RELATIVE_ERROR
from topology.queries.window.local_slices import LocalSlices
from topology.queries.window.settings import WindowQuery

Window = tuple[str, int, int]
"""The key as text, start and end."""
Found = dict[Window, dict[str, Any]]

OUTPUTS = (
    Output("n", "count"),
    Output("sum", "sum", ("v",)),
    Output("avg", "avg", ("v",)),
    Output("min", "min", ("v",)),
    Output("max", "max", ("v",)),
    Output("stddev", "stddev", ("v",)),
    Output("median", "quantile", ("v",), 500_000),
    Output("distinct", "distinct", ("v",)),
    Output("first", "first", ("v",)),
    Output("last", "last", ("v",)),
    Output("max_by", "max_by", ("key",), by=("v",)),
    Output("min_by", "min_by", ("key",), by=("v",)),
)


TOLERANCES: dict[str, Callable[[Any], float]] = {
    "stddev": lambda value: 1e-12 * abs(value),
    "median": lambda value: RELATIVE_ERROR * 1.001 * abs(value),
}
"""Allowed errors of outputs that are not exact, from the expected value."""


def number(value: Any) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and -float_info.max <= value <= float_info.max
    )


def key_of(event: Event, config: WindowQuery) -> Any:
    """Return the key as comparable text, or None if the event has none."""
    if config.key is None:
        return "-"
    key = (event.value or {}).get("key")
    return repr(key) if isinstance(key, str | bool) or number(key) else None


def values_of(events: Sequence[Event]) -> Any:
    """Return the values of a window with the given in-order events."""
    usable: list[Any] = [(e.value or {}).get("v") for e in events]
    plain = sorted(v for v in usable if number(v))
    scalars = [v for v in usable if number(v) or isinstance(v, str | bool)]
    rows = [(row.get("key"), row.get("v")) for row in (e.value or {} for e in events)]
    ranked = [(k, v) for k, v in rows if number(v) and (number(k) or isinstance(k, str | bool))]
    exact = [Fraction(v) for v in plain]
    total = sum(exact, Fraction(0))
    mean = total / max(1, len(exact))
    spread = sum(((v - mean) ** 2 for v in exact), Fraction(0))
    return {
        "n": float(len(events)),
        "sum": float(total) if plain else None,
        "avg": float(mean) if plain else None,
        "min": plain[0] if plain else None,
        "max": plain[-1] if plain else None,
        "stddev": sqrt(spread / len(exact)) if plain else None,
        "median": plain[(len(plain) - 1) // 2] if plain else None,
        # A float beyond 64 bit may have been any of several integers.
        "distinct": len(
            {
                (isinstance(v, bool), v)
                for v in scalars
                if not isinstance(v, float) or -(2**63) <= v < 2**64
            }
        ),
        "first": scalars[0] if scalars else None,
        "last": scalars[-1] if scalars else None,
        "max_by": max(ranked, key=by_rank)[0] if ranked else None,
        "min_by": min(ranked, key=by_rank)[0] if ranked else None,
    }


def by_rank(row: tuple[Any, Any]) -> Any:
    return row[1]


def by_key(events: Iterable[Event], config: WindowQuery) -> dict[str, list[Event]]:
    keys: dict[str, list[Event]] = {}
    for event in sorted((e for e in events if e.kind == DATA), key=place):
        key = key_of(event, config)
        if key is not None:
            keys.setdefault(key, []).append(event)
    return keys


def spans_of(events: Sequence[Event], config: WindowQuery) -> dict[tuple[int, int], list[Event]]:
    """Return the events of each window of one key, by (start, end)."""
    found: dict[tuple[int, int], list[Event]] = {}
    windows = config.window
    if windows.kind == "session":
        session: list[Event] = []
        for event in [*events, None]:
            if session and (
                event is None or event.ref_time_ns > session[-1].ref_time_ns + windows.size_ns
            ):
                span = session[0].ref_time_ns, session[-1].ref_time_ns + windows.size_ns
                found[span] = session
                session = []
            if event is not None:
                session = [*session, event]
    elif windows.kind == "count":
        for at in range(0, len(events) - windows.events + 1, windows.events):
            full = list(events[at : at + windows.events])
            found[full[0].ref_time_ns, full[-1].ref_time_ns + 1] = full
    elif windows.is_local:
        slices = LocalSlices(windows)
        for event in events:
            for start in slices.windows(slices.at(event.ref_time_ns)):
                found.setdefault((start, slices.end(start)), []).append(event)
    else:
        for event in events:
            start = event.ref_time_ns // windows.step_ns * windows.step_ns
            while start + windows.size_ns > event.ref_time_ns:
                found.setdefault((start, start + windows.size_ns), []).append(event)
                start -= windows.step_ns
    return found


def members_of(events: Iterable[Event], config: WindowQuery) -> dict[Window, list[Event]]:
    """Return the events of each window, in order."""
    return {
        (key, *span): members
        for key, own in by_key(events, config).items()
        for span, members in spans_of(own, config).items()
    }


def oracle(events: Iterable[Event], config: WindowQuery) -> Found:
    return {window: values_of(each) for window, each in members_of(events, config).items()}


def last_word(results: Iterable[WindowResult]) -> list[WindowResult]:
    """Return the current results; assert that each revision follows from the one before."""
    return [result for result in last_of_each(results) if result.op != RETRACT]


def last_of_each(results: Iterable[WindowResult]) -> list[WindowResult]:
    """Return the last revision of each result, including retracted ones."""
    latest: dict[str, WindowResult] = {}
    for result in results:
        before = latest.get(result.id)
        assert result.revision == (0 if before is None else before.revision + 1)
        assert before is None or not before.final
        if before is not None and before.op == RETRACT and result.op == RETRACT:
            assert result.final  # The second retraction is final, since nothing brings it back.
        else:
            is_shown = before is not None and before.op != RETRACT
            assert result.op in ((UPDATE, RETRACT) if is_shown else (EMIT,))
        latest[result.id] = result
    return list(latest.values())


def rendered(results: Iterable[WindowResult], config: WindowQuery) -> Found:
    found: Found = {}
    for result in last_word(results):
        key = "-" if config.key is None else repr(result.key)
        window = key, result.start_ns, result.end_ns
        assert window not in found
        found[window] = result.values
    return found


def agree(found: Found, expected: Found) -> None:
    assert sorted(found) == sorted(expected)
    for window, values in expected.items():
        for name, value in values.items():
            got = found[window][name]
            if name in TOLERANCES and value is not None:
                assert abs(got - value) <= TOLERANCES[name](value), (window, name)
            else:
                assert got == value, (window, name, got, value)
                assert isinstance(got, bool) == isinstance(value, bool)
