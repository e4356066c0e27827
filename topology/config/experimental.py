"""Defines the sections `experimental` of a stream and of a query.

Their settings replace defaults by published methods (`topology.published`), in order to compare the
two and to repeat published experiments. Any version may remove such a method.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal

from topology.reorder.settings import ReorderConfig
from topology.spelling.problem import Fault
from topology.spelling.section import Section
from topology.spelling.values import one_of

ReorderMethod = Literal["thesis", "rfc", "mp"]
ClockMethod = Literal["thesis"]
MergeMethod = Literal["thesis"]
QualityMethod = Literal["mp", "aq", "ldop", "prob_slack", "event_driven", "mean_delay"]

BY_TIME: Final = "mp"
"""The name of the method for sources that do not number their events."""


class StreamMethods(Section):
    """The published methods that a stream uses; None means the default."""

    reorder: Annotated[ReorderMethod, one_of(ReorderMethod)] | None = None
    """The wait for a gap: `thesis`, or `rfc` for RFC 6298. Under `rule: time` it is `mp` for
    MP-K-Slack."""
    clock: Annotated[ClockMethod, one_of(ClockMethod)] | None = None
    """The method that turns rounds of time sync into a clock."""
    merge: Annotated[MergeMethod, one_of(MergeMethod)] | None = None
    """The method that decides how long merge waits for a silent source."""


class QueryMethods(Section):
    """The published methods that a query uses; None means the default."""

    quality: Annotated[QualityMethod, one_of(QualityMethod)] | None = None
    """The method that finds the wait for the target of `quality`."""


def reorder_faults(methods: StreamMethods, reorder: ReorderConfig) -> Iterator[Fault]:
    """Yield a fault for each setting of `reorder` that does not fit the chosen method."""
    method, rule = methods.reorder, reorder.rule
    place = ("experimental", "reorder")
    if method == BY_TIME:
        if rule != "time":
            message = f"`{method}` is a method of `rule: time`"
            yield Fault(place, message, "write reorder: {rule: time}, or leave it out")
        if "miss_target_ppm" in reorder.model_fields_set:
            message = f"has no effect with `{method}`"
            yield Fault(("reorder", "miss_target"), message, "leave it out")
    elif method is not None and rule != "miss":
        message = f"`{method}` takes the place of `rule: {rule}`"
        yield Fault(place, message, "leave one of the two out")


def quality_faults(methods: QueryMethods, *, has_target: bool) -> Iterator[Fault]:
    """Yield a fault for a method whose target is missing, because there is no `quality`."""
    if methods.quality is not None and not has_target:
        message, remedy = f"`{methods.quality}` has no target", "write quality: {accuracy: 99%}"
        yield Fault(("experimental", "quality"), message, f"{remedy} beside it")
