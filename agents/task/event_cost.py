"""Names what is slow while records are costly: the time of a record, and the query that takes most.

Records are costly if a piece took at least `LEAST_S`, and `COSTLY_S` for each record. Then the
queries are timed during the next piece. The answer is in the log, at most once in `REPEAT_S`, and
in `/ready` while the partition is far behind. Pieces of cheap records are not measured further.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aiokafka.structs import TopicPartition

from topology.base.meter import Meter

log = logging.getLogger(__name__)

LEAST_S: Final = 0.1
COSTLY_S: Final = 0.001
"""Time of a record from which on it counts as costly: a thousand a second."""

REPEAT_S: Final = 60.0
"""Least time between two lines in the log about a partition."""


@dataclass(eq=False)
class EventCost:
    """The cost of a partition's records.

    Attributes:
        text: The time of a record and the query that takes most of it; "" while records are cheap.
    """

    source: TopicPartition
    meter: Meter
    clock_ns: Callable[[], int] = time.perf_counter_ns
    text: str = field(default="", init=False)
    _logged_s: float = field(default=float("-inf"), init=False)

    def begin(self) -> None:
        """Forget what the meter has measured before the next piece, as for a tick."""
        self.meter.take()

    def note_work(self, now_s: float, seconds: float, records: int) -> None:
        """Note a piece of so many records that took so long, until the monotonic time `now_s`."""
        spent_ns = self.meter.take()
        is_costly = seconds >= max(LEAST_S, records * COSTLY_S)
        if not is_costly:
            self.text = ""
        elif self.meter.clock_ns is not None:
            self.text = f"a record takes {1e3 * seconds / records:,.0f} ms"
            if spent_ns:
                query = max(spent_ns, key=spent_ns.__getitem__)
                share = spent_ns[query] / 1e7 / seconds
                self.text += f", {share:.0f} % of it in the query {query}"
            if now_s - self._logged_s >= REPEAT_S:
                self._logged_s = now_s
                log.warning("%s/%d: %s", *self.source, self.text)
        self.meter.clock_ns = self.clock_ns if is_costly else None
