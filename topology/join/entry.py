"""An event as one side of a join keeps it.

Proved by: tests/topology/join/test_examples.py, tests/topology/join/test_oracle.py
"""

from __future__ import annotations

from typing import Any

from topology.model.event import Event
from topology.query.frontier import NOT_YET

Place = tuple[int, str, int, int]
"""Reference time, source, epoch, seq: the order of a side's events."""


class JoinEntry:
    """The true time lies in [ref - error, ref + error]. `values` are those that rows show of it.
    It is kept until `until_ns` (`retention`). `came_ns`: see `marks`. `is_fresh`: the instant in
    which it came is not over. `is_kept`: it is in the index."""

    __slots__ = (
        "came_ns",
        "error_ns",
        "event",
        "is_fresh",
        "is_kept",
        "key",
        "ref_ns",
        "side",
        "until_ns",
        "values",
    )

    def __init__(
        self, event: Event, side: int, key: str, error_ns: int, values: tuple[Any, ...]
    ) -> None:
        self.event = event
        self.side = side
        self.key = key
        self.ref_ns = event.ref_time_ns
        self.error_ns = error_ns
        self.values = values
        self.until_ns = 0
        self.came_ns = NOT_YET
        self.is_fresh = False
        self.is_kept = False

    @property
    def place(self) -> Place:
        event = self.event
        return self.ref_ns, event.source, event.epoch, event.seq

    @property
    def age(self) -> tuple[int, int, str, int, int]:
        """Smaller is older; no two of a query are alike."""
        event = self.event
        return self.ref_ns, self.side, event.source, event.epoch, event.seq

    @property
    def name(self) -> str:
        """No other event of the side has it."""
        event = self.event
        return f"{event.epoch}/{event.seq}/{event.source}"

    def has_clock_of(self, other: JoinEntry) -> bool:
        """One clock stamped both and no jump lies between: what it is off, it is for both."""
        one, two = self.event, other.event
        return (
            one.source == two.source
            and one.epoch == two.epoch
            and one.segment == two.segment
            and one.stream == two.stream
        )


def age_of(entry: JoinEntry) -> Any:
    return entry.age
