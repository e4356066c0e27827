"""Define topologies in code and replay them in this process; needs `inorder-engine`.

    from inorder.engine import PatternQuery, RawEvent, StreamConfig, Topology, pattern, replay

    topology = Topology(
        streams={"default": StreamConfig()},
        queries={"pair": PatternQuery(pattern=pattern("PATTERN SEQ(A a, B b) WITHIN 1 s"))},
    )
    for record in replay(topology, [RawEvent(source="s", seq=0, ts_ns=1, type="A")]):
        ...

`parse` makes the same `Topology` from a YAML file, and a worker runs the same value. Names of
fields include their units (`max_wait_ns`).

A fault raises a ValueError:

* pydantic's ValidationError for a section defined in code;
* TopologyError for a file or a whole topology;
* QueryRefused for the text of a pattern.

A value that is not a topology or event at all raises TypeError.

A replay needs no Kafka and no clock. The same input gives the same records, which equal those of
`inorder replay`.

`Ordering` does the same for events that are pushed: by a callback, a socket, or your own consumer.
The caller passes it the time. It returns the offsets that may be committed, and its state as bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING

from inorder.records import ClockOffset as ClockOffset
from inorder.records import ClockSample as ClockSample
from inorder.records import RawEvent as RawEvent
from inorder.records import Record as Record

try:
    import topology.config as _config
    from topology.config import Aggregate as Aggregate
    from topology.config import ClockConfig as ClockConfig
    from topology.config import DetectorQuery as DetectorQuery
    from topology.config import HeaderConfig as HeaderConfig
    from topology.config import JoinCondition as JoinCondition
    from topology.config import JoinedValue as JoinedValue
    from topology.config import JoinQuery as JoinQuery
    from topology.config import MergeConfig as MergeConfig
    from topology.config import PatternQuery as PatternQuery
    from topology.config import QualityConfig as QualityConfig
    from topology.config import QueryConfig as QueryConfig
    from topology.config import ReorderConfig as ReorderConfig
    from topology.config import SideConfig as SideConfig
    from topology.config import SpeculateConfig as SpeculateConfig
    from topology.config import StageConfig as StageConfig
    from topology.config import StreamConfig as StreamConfig
    from topology.config import TopicsConfig as TopicsConfig
    from topology.config import Topology as Topology
    from topology.config import TopologyError as TopologyError
    from topology.config import Window as Window
    from topology.config import WindowQuery as WindowQuery
    from topology.config import pattern as pattern
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] != "topology":
        raise
    if (other := sys.modules.get("topology")) is not None:
        place = getattr(other, "__file__", None) or "elsewhere"
        raise ImportError(
            f"`topology` is {place}, which is not the engine's; rename it, or remove it"
            f" from the path"
        ) from missing
    remedy = "pip install inorder-engine"
    raise ImportError(f"topologies in code are a part of the engine; {remedy}") from missing

if TYPE_CHECKING:
    from inorder.given import Input as Input
    from inorder.given import parse as parse
    from inorder.ordering import Balance as Balance
    from inorder.ordering import Ordering as Ordering
    from inorder.ordering import Partition as Partition
    from topology.base.outcome import Step
    from topology.queries.detector.detector import Detector as Detector
    from topology.queries.detector.detector import Emitted as Emitted
    from topology.queries.detector.detector import Found as Found
    from topology.queries.detector.item import Seen as Seen
    from topology.queries.pattern.tree.errors import QueryRefused as QueryRefused
    from topology.queries.window.aggregates.custom import Function as Function
    from topology.records.marked import StateUnreadable as StateUnreadable

_HOMES = {
    "inorder.given": "Input parse",
    "inorder.ordering": "Balance Ordering Partition",
    "topology.queries.detector.detector": "Detector Emitted Found",
    "topology.queries.detector.item": "Seen",
    "topology.queries.pattern.tree.errors": "QueryRefused",
    "topology.queries.window.aggregates.custom": "Function",
    "topology.records.marked": "StateUnreadable",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
"""The module that each name is imported from, on first use."""

_SECTIONS = [name for name in vars(_config).keys() & globals().keys() if name[0] != "_"]
"""The names that were imported from `topology.config` above."""

_EVENTS = ["ClockOffset", "ClockSample", "RawEvent", "Record"]
__all__ = [*sorted([*_EVENTS, *_HOME_OF, *_SECTIONS, "replay"])]  # noqa: PLE0604 - names, all


# A type checker does not see `__getattr__`, so it still reports unknown names.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _HOME_OF:
            raise AttributeError(f"module 'inorder.engine' has no attribute {name!r}")
        value: object = getattr(import_module(_HOME_OF[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def replay(
    topology: Topology | str, inputs: Iterable[Input], *, to_end: bool = True
) -> Iterator[Record]:
    """Return the records that follow from the inputs, in the order in which they are emitted.

    If the first event has no arrival time, the reported timestamps are not corrected, because such
    inputs say nothing about clocks.

    Args:
        topology: A topology, or the text of its file.
        inputs: The inputs in the order of their arrival. They are read as records are requested,
            so the input may be endless.
        to_end: Whether the input ends after the last one. If so, buffered events are emitted in
            order, and results that only the end decides are `uncertain` and not `final`. If not,
            the replay returns only the records that were emitted until then.

    Returns:
        The records. An input that cannot be used becomes a `DeadRecord`.

    Raises:
        TopologyError: The topology names user functions that it does not have.
        TypeError: `inputs` is a single value. If a value in it is not an input, such as a text or a
            list, the iteration raises TypeError when it reaches that value.
    """
    from inorder.given import INPUTS, check_iterable, records_of, to_runnable
    from topology.stage.instants import whole_instants

    whole = to_runnable(topology)
    check_iterable("inputs", inputs, INPUTS)
    steps = whole_instants(_steps(whole, inputs, to_end=to_end), whole)
    return (record for step in steps for record in records_of(step))


def _steps(topology: Topology, inputs: Iterable[Input], *, to_end: bool) -> Iterator[Step]:
    from inorder.given import Reader
    from topology.records.line_reader import peek_arrivals
    from topology.stage.batches import batches
    from topology.stage.replay import Replay

    has_arrivals, read = peek_arrivals(Reader(topology).contents(inputs))
    run = Replay(topology if has_arrivals else topology.without_arrivals())
    for contents, until_ns in batches(read):
        if (step := run.on_inputs(contents, until_ns)) is not None:
            yield step
    if to_end and (step := run.on_end()) is not None:
        yield step
