"""What a window query says, checked.

`of` takes it from a `topology.config.QueryConfig`; what the description does not name
has defaults here. All bounds are per query and partition:

* `max_windows`: windows (of sliding ones: slices) that are open or kept for corrections, over
  all keys; of a count window: keys. At the bound what is kept for corrections is given up
  first, oldest first; if all are open, what would open one more is left out. Both are counted.
* `max_edge_events`: events of one window that may or may not belong to it. Beyond it the
  window is emitted by reference time alone and without bounds.
* `max_recount`: events per key that a count window keeps for corrections.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from topology.answer.quality import Quality
from topology.model.lengths import fault_of
from topology.model.one_clock import Play
from topology.query.fields import path_of
from topology.window.aggregates.built_in import BUILT_IN
from topology.window.aggregates.custom import Function

MAX_AGGREGATES: Final = 1_000
USUAL_PLAY: Final = Play(100)

PLAIN: Final = "plain"
IGNORE: Final = "ignore"
THESIS3: Final = "thesis3"
EXPECTED: Final = "expected"
BOUNDS: Final = "bounds"

TUMBLING: Final = "tumbling"
SLIDING: Final = "sliding"
SESSION: Final = "session"
COUNT: Final = "count"


@dataclass(frozen=True, slots=True)
class Output:
    """One named aggregate: `path` leads to its value in the payload, empty for `count`."""

    name: str
    function: str
    path: tuple[str, ...] = ()
    quantile_ppm: int = 0


@dataclass(frozen=True, slots=True)
class WindowConfig:
    """`size_ns` is the gap of a session, `events` the size of a count window. `every_ns` of a
    tumbling window is its size. `early_ns`: 0 for no early results. `max_error_ns` is the
    largest clock error that `thesis3` reckons with; `play` says how far
    the error of one source is not the same for all its events (`shifts`). `quality`: None for no
    quality target (topology.answer.quality_target). `newcomers_ns`: how far behind W a source that
    was not heard before may begin (`frontier`). `only_final`: emits nothing before it is final."""

    query: str
    kind: str
    outputs: tuple[Output, ...]
    size_ns: int = 0
    every_ns: int = 0
    events: int = 0
    key: tuple[str, ...] | None = None
    uncertainty: str = PLAIN
    early_ns: int = 0
    finals: bool = False
    correct_for_ns: int = 600 * 10**9
    newcomers_ns: int = 600 * 10**9
    only_final: bool = False
    max_error_ns: int = 20 * 10**6
    play: Play = USUAL_PLAY
    max_windows: int = 1_000_000
    max_edge_events: int = 1_000
    max_recount: int = 10_000
    quality: Quality | None = None

    @property
    def heeds_errors(self) -> bool:
        return self.uncertainty != IGNORE

    @property
    def fingerprint(self) -> bytes:
        """Equal for queries whose windows are the same."""
        what = (self.kind, self.size_ns, self.every_ns, self.events, self.key)
        outputs = [(o.name, o.function, o.path, o.quantile_ppm) for o in self.outputs]
        return repr((self.query, what, outputs, self.uncertainty)).encode()


class BadQuery(ValueError):
    """The query cannot be run as it is written; the message says what to write instead."""


class WindowSpelling(Protocol):
    """`topology.config.query.Window`."""

    @property
    def kind(self) -> str: ...

    @property
    def size_ns(self) -> int: ...

    @property
    def every_ns(self) -> int: ...

    @property
    def events(self) -> int: ...


class AggregateSpelling(Protocol):
    """`topology.config.query.Aggregate`."""

    @property
    def function(self) -> str: ...

    @property
    def path(self) -> tuple[str, ...]: ...

    @property
    def quantile_ppm(self) -> int: ...


class WindowSettings(Protocol):
    """What is read of a query of the topology file (`topology.config.QueryConfig`)."""

    @property
    def window(self) -> WindowSpelling | None: ...

    @property
    def aggregate(self) -> Mapping[str, AggregateSpelling] | None: ...

    @property
    def key(self) -> str | None: ...

    @property
    def uncertainty(self) -> str | None: ...


def of(name: str, query: WindowSettings, **settings: Any) -> WindowConfig:
    """`query` is one with a window; `settings` are fields of `WindowConfig`."""
    window = query.window
    assert window is not None
    return WindowConfig(
        query=name,
        kind=window.kind,
        outputs=tuple(
            Output(output, each.function, path_of(each.path), each.quantile_ppm)
            for output, each in (query.aggregate or {}).items()
        ),
        size_ns=window.size_ns,
        every_ns=window.every_ns or (window.size_ns if window.kind == TUMBLING else 0),
        events=window.events,
        key=path_of(tuple(query.key.split("."))) if query.key else None,
        uncertainty=query.uncertainty or PLAIN,
        **settings,
    )


def check(config: WindowConfig, functions: Mapping[str, Function]) -> None:
    """Refuse what cannot work; BadQuery names the query and the remedy."""
    fault = _of_lengths(config) or _of_outputs(config, functions) or _of_bounds(config)
    if fault:
        raise BadQuery(f"query {config.query!r}: {fault}")


def _of_lengths(config: WindowConfig) -> str:
    if config.kind == COUNT:
        return "" if config.events > 0 else "a count window needs events; write count 100"
    if config.kind == SESSION:
        return fault_of(config.size_ns, config.size_ns)
    if fault := fault_of(config.size_ns, config.every_ns):
        return fault
    if config.uncertainty in (THESIS3, BOUNDS) and config.size_ns <= 2 * config.max_error_ns:
        least = f"no event certainly belongs to a window of at most {2 * config.max_error_ns} ns"
        return f"{least} (twice the largest clock error); write a longer one, or uncertainty: plain"
    return ""


def _of_outputs(config: WindowConfig, functions: Mapping[str, Function]) -> str:
    if not 0 < len(config.outputs) <= MAX_AGGREGATES:
        return f"{len(config.outputs)} aggregates; write 1 to {MAX_AGGREGATES}"
    for output in config.outputs:
        if output.function not in BUILT_IN and output.function not in functions:
            known = ", ".join(sorted(BUILT_IN.keys() | functions.keys()))
            return f"{output.function!r} is no aggregate; there are: {known}"
    if taken := BUILT_IN.keys() & functions.keys():
        return f"{min(taken)!r} is built in; register the function under another name"
    return ""


def _of_bounds(config: WindowConfig) -> str:
    for bound in ("max_windows", "max_edge_events", "max_recount"):
        if getattr(config, bound) < 1:
            return f"{bound} is {getattr(config, bound)}; write at least 1"
    if min(config.early_ns, config.correct_for_ns, config.newcomers_ns, config.max_error_ns) < 0:
        return "early, correct_for, newcomers and max_error are not below 0"
    if min(config.play) < 0:
        return "max_skew and granularity are not below 0"
    return config.quality.fault() if config.quality is not None else ""
