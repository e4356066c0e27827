"""Defines the settings of a query with a detector.

Bounds for each query and partition: at most `max_events` events are buffered until they are final.
At this bound all of them are read and become final. At most `max_keys` keys have a state, and the
events of further keys are left out. Both cases are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

from pydantic import BeforeValidator, ValidationInfo

from topology.answer.settings import AnswerSettings, key_path
from topology.clock.settings import ClockConfig
from topology.model.user_functions import NAME
from topology.spelling.problem import format_value, meant, refuse
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
    from topology.detector.result_event import UpstreamQuery


def _detector(value: Any, info: ValidationInfo) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise refuse(
            f"{format_value(value)} is not the name of a detector", "write detector: stops"
        )
    own = user_functions_of(info).detectors
    if is_from_file(info) and value not in own:
        remedy = meant(value, (*own,)) if own else "add it to the `functions` file"
        raise refuse(f"there is no detector `{value}`", remedy)
    return value


def _one(value: Any) -> Any:
    """Return a single name as a list."""
    return [value] if isinstance(value, str) else value


class SpeculateConfig(Section):
    """The limits of speculative detectors (`topology.answer.budget`)."""

    share_ppm: Annotated[int, share(1, MILLION, "write a share of a processor, like 50%")] = 500_000
    """The share of a processor for all speculative detectors of a stream together. If they ask for
    several shares, the smallest counts. Lower it if the stage does not keep up with its input."""


class DetectorSettings(AnswerSettings):
    """The settings of a query with a detector. `clock` is that of its stream."""

    detector: Annotated[str, Given(_detector, {"type": "string"})] | None = None
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
    """The largest number of keys with a state, of a detector. Raise it if events are left out
    (`refused`)."""
    max_events: Annotated[Count, Unspelled()] = 1_000_000
    """The largest number of events that a join or a detector buffers."""
    clock: Annotated[ClockConfig, Unspelled()] = ClockConfig.by_default()
    """How the clocks of its stream are trusted."""

    @property
    def granted_ppm(self) -> int:
        """The share of a processor that speculation may take."""
        return (self.speculate or SpeculateConfig.by_default()).share_ppm


class Inputs(NamedTuple):
    """The inputs of a detector.

    Attributes:
        is_speculative: Whether the stream's events are read as soon as MERGE accepts them
            (`flow.accepted`).
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


def fingerprint(query: DetectorSettings, inputs: Inputs) -> bytes:
    """Return a value that is equal for queries with the same results, whatever their `answer`."""
    own: tuple[object, ...] = (query.name, query.detector, key_path(query.key))
    if inputs.reads:
        own = (*own, inputs.reads, inputs.reads_stream, inputs.below)
    return repr(own).encode()
