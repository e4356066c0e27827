"""The sections `experimental` of a stream and of a query: which method of a paper takes the place
of ours (topology.published). They are there to be compared with and to repeat published runs; a
name of theirs may go in any version.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal

from topology.spelling.problem import Fault
from topology.spelling.section import Section
from topology.spelling.values import one_of

ReorderMethod = Literal["thesis", "rfc", "mp"]
ClockMethod = Literal["thesis"]
MergeMethod = Literal["thesis"]
QualityMethod = Literal["mp", "aq", "ldop", "prob_slack", "event_driven", "mean_delay"]
EstimatorClock = Literal["arrival", "event"]

BY_TIME: Final = "mp"
"""The one for sources without numbers."""


class StreamMethods(Section):
    """None: ours."""

    reorder: Annotated[ReorderMethod, one_of(ReorderMethod)] | None = None
    """How long REORDER waits: as the thesis or RFC 6298 for a hole, as MP-K-Slack under `rule:
    time`."""
    estimator_clock: Annotated[EstimatorClock, one_of(EstimatorClock)] = "arrival"
    """Which clock `thesis` and `rfc` measure by."""
    clock: Annotated[ClockMethod, one_of(ClockMethod)] | None = None
    """How rounds of time sync become a clock."""
    merge: Annotated[MergeMethod, one_of(MergeMethod)] | None = None
    """How long MERGE waits for a silent source."""


class QueryMethods(Section):
    """None: ours."""

    quality: Annotated[QualityMethod, one_of(QualityMethod)] | None = None
    """How the wait for the target of `quality` is found."""


def reorder_faults(methods: StreamMethods, rule: str, given: set[str]) -> Iterator[Fault]:
    """`rule` and `given`: what the section `reorder` says, and which of its fields it has."""
    method = methods.reorder
    place = ("experimental", "reorder")
    if method == BY_TIME:
        if rule != "time":
            message = f"`{method}` is a strategy of `rule: time`"
            yield Fault(place, message, "write reorder: {rule: time}, or leave it out")
        for name, key in (
            ("strategy", "strategy"),
            ("accuracy_ppm", "accuracy"),
            ("wait_ns", "wait"),
        ):
            if name in given:
                yield Fault(("reorder", key), f"means nothing beside `{method}`", "leave it out")
    elif method is not None and rule != "miss":
        message = f"`{method}` takes the place of `rule: {rule}`"
        yield Fault(place, message, "leave one of the two out")
    if "estimator_clock" in methods.model_fields_set and method in (None, BY_TIME):
        message = "is the clock of `reorder: thesis` and `rfc`"
        yield Fault(("experimental", "estimator_clock"), message, "leave it out")


def quality_faults(methods: QueryMethods, strategy: str | None) -> Iterator[Fault]:
    """`strategy`: that of the section `quality`; None: there is no such section."""
    if methods.quality is None:
        return
    if strategy is None:
        message = f"`{methods.quality}` has no target"
        yield Fault(
            ("experimental", "quality"), message, "write quality: {accuracy: 99%} beside it"
        )
    elif strategy != "risk":
        message = f"`{methods.quality}` takes the place of `strategy: {strategy}`"
        yield Fault(("experimental", "quality"), message, "leave one of the two out")
