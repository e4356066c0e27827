"""Defines the settings of a query with a detector.

Bounds for each query and partition: at most `max_events` events are buffered until they are final.
At this bound all of them are read and become final. At most `max_keys` keys have a state, and the
events of further keys are left out. Both cases are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, NamedTuple

from pydantic import BeforeValidator, ValidationInfo

from topology.answer.rules import SPECULATE
from topology.answer.settings import OfStream, WithKey, key_path
from topology.base.user_functions import NAME
from topology.order.clock.settings import ClockConfig
from topology.spelling.problem import Fault, format_value, make_refusal, suggest
from topology.spelling.section import Section, Unspelled
from topology.spelling.values import (
    MILLION,
    Count,
    Given,
    is_from_file,
    names,
    or_nothing,
    share,
    user_functions_of,
)

if TYPE_CHECKING:
    from topology.queries.detector.result_event import UpstreamQuery


LIKE: Final = "write detector: stops"


def _detector(value: Any, info: ValidationInfo) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise make_refusal(f"{format_value(value)} is not the name of a detector", LIKE)
    own = user_functions_of(info).detectors
    if is_from_file(info) and value not in own:
        remedy = suggest(value, (*own,)) if own else "add it to the `functions` file"
        raise make_refusal(f"there is no detector `{value}`", remedy)
    return value


def _one(value: Any) -> Any:
    """Return a single name as a list."""
    return [value] if isinstance(value, str) else value


class SpeculateConfig(Section):
    """The limits of speculative detectors (`topology.answer.budget`)."""

    share_ppm: Annotated[int, share(1, MILLION, "write a share of a processor, like 50%")] = 500_000
    """The share of a processor for all speculative detectors of a stream together. If they ask for
    several shares, the smallest counts. Lower it if the stage does not keep up with its input."""


class DetectorQuery(WithKey, OfStream):
    """A query with a detector. `clock` is that of its stream."""

    kind: ClassVar = "detector"

    detector: Annotated[str, Given(_detector, {"type": "string"}, instead=LIKE)]
    """A detector of your own, by its name in the functions file."""
    speculate: Annotated[SpeculateConfig | None, or_nothing(SpeculateConfig)] = None
    """The limits of a speculative detector."""
    reads: (
        Annotated[tuple[str, ...], names("queries", "write reads: [hits]"), BeforeValidator(_one)]
        | None
    ) = None
    """The inputs of a detector: its stream, and queries whose results it reads as events. By
    default it reads the stream alone."""
    max_keys: Count = 1_000_000
    """The largest number of keys with a state. Raise it if events are left out
    (`refused`)."""
    max_events: Annotated[Count, Unspelled()] = 1_000_000
    """The largest number of events that the detector buffers."""
    clock: Annotated[ClockConfig, Unspelled()] = ClockConfig.make_default()
    """How the clocks of its stream are trusted."""

    @property
    def granted_ppm(self) -> int:
        """The share of a processor that speculation may take."""
        return (self.speculate or SpeculateConfig.make_default()).share_ppm

    def faults(self) -> Iterator[Fault]:
        if self.speculate is not None and self.answer != SPECULATE:
            message = f"has no effect with `answer: {self.answer}`"
            yield Fault(("speculate",), message, "write answer: speculate, or leave it out")


class Inputs(NamedTuple):
    """The inputs of a detector.

    Attributes:
        is_speculative: Whether the stream's events are read as soon as MERGE accepts them
            (`stage.accepted`).
        reads: The queries whose results are read as events.
        reads_stream: Whether the events of the stream are read too.
        lag_ns: The longest time by which final results of `reads` lag behind the finality horizon.
        below: The fingerprints of the queries in `reads`.
    """

    is_speculative: bool = False
    reads: tuple[UpstreamQuery, ...] = ()
    reads_stream: bool = True
    lag_ns: int = 0
    below: tuple[bytes, ...] = ()


STREAM_ALONE: Final = Inputs()


def fingerprint(query: DetectorQuery, inputs: Inputs) -> bytes:
    """Return a value that is equal for queries with the same results, whatever their `answer`."""
    own: tuple[object, ...] = (query.name, query.detector, key_path(query.key))
    if inputs.reads:
        own = (*own, inputs.reads, inputs.reads_stream, inputs.below)
    return repr(own).encode()
