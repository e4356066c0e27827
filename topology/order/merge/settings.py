"""Defines the section `merge` of a stream: the settings of MERGE."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from topology.order.reorder.settings import ReorderConfig
from topology.spelling.section import Section, Unspelled
from topology.spelling.values import (
    Count,
    DurationNs,
    PositiveNs,
    ProbabilityPpm,
    names,
    one_of,
    source_name_fault,
)

MAX_SOURCES_EXPECTED: Final = 100_000


SOURCES: Final = names(
    "sources",
    "write a list of source names, like [s1, s2]",
    source_name_fault,
    least=0,
    most=MAX_SOURCES_EXPECTED,
)
MergeWait = Literal["delay"]


class MergeConfig(Section):
    """The settings of the order across all sources of a stream.

    `new_source_allowance` is how far behind the watermark a new source may begin. Results stay open
    for this long. None stands for the file's `correct_for`; 0 is right where `expected_sources`
    names all sources.
    """

    wait: Annotated[MergeWait, one_of(MergeWait), Unspelled(old=True)] = "delay"
    """How long merge waits for a silent source: `delay` is the time that its delays require."""
    miss_target_ppm: ProbabilityPpm = 1_000
    """The share of events that may take longer than merge waits for their source. Lower it for
    fewer late events, raise it for a shorter wait."""
    max_wait_ns: DurationNs = 500_000_000
    """The longest wait for a source. Raise it if events that are late were on the way for
    longer."""
    idle_after_ns: PositiveNs = 2_000_000_000
    """A source that is silent for this long, and longer than usual, is idle: merge does not wait
    for it. Raise it if sources pause, and their first events afterwards are late."""
    quiet_after_ns: PositiveNs = 30_000_000_000
    """If all sources are silent for this long, the watermark follows the arrival clock. Lower it if
    the last results before a pause have to come sooner."""
    outage_wait_ns: DurationNs = 30_000_000_000
    """The longest wait for sources after a pause of the whole log. Set it to the time that
    producers need to connect again. `0s` switches the wait off."""
    max_queued: Count = 1_000_000
    """The largest number of buffered events of a stream. At the bound order is given up for some of
    them, and they are counted. Raise it if events are late by `merge_full`."""
    expected_sources: Annotated[tuple[str, ...], SOURCES] = ()
    """Sources that merge waits for before their first event. It waits `max_wait` from the stream's
    first event."""
    reorder: Annotated[ReorderConfig, Unspelled()] = ReorderConfig.make_default()
    """The order within each source, as the stream has it."""
    max_set_back_ns: Annotated[DurationNs | None, Unspelled(), Field(repr=False)] = None
    """The `max_set_back` of the stream's clocks, which merge waits for."""
    heartbeat_ns: Annotated[DurationNs, Unspelled(), Field(repr=False)] = 200_000_000
    """Watermarks are announced at multiples of this interval; 0 switches them off."""
    correct_for_ns: Annotated[DurationNs, Unspelled(), Field(repr=False)] = 600_000_000_000
    """The file's `correct_for`; `repr` omits it, because the file itself has it."""
    new_source_allowance_ns: DurationNs | None = None
    """How long results stay open for new sources. By default it is `correct_for`. Lower it if no
    source appears late, so that results are final sooner."""
