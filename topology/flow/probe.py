"""PROBE: whoever wants to see events between the operators of a chain, for people.

A chain that has one shows it each batch as it is at that moment: `at_ns` is the instant at which
the operator named has let the event go. A probe looks; it changes nothing, and what it does is no
part of the answer. Most chains have none, and then it costs one comparison a batch.
"""

from __future__ import annotations

from collections.abc import Sequence

from topology.model.event import Event
from topology.model.native import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Probe:
    """See the module's docstring. It keeps none of the lists it is shown."""

    def entered(self, events: Sequence[Event]) -> None:
        """They come to the first operator of the chain."""

    def left(self, operator: str, events: Sequence[Event]) -> None:
        """The operator of that name has let them go."""
