"""A wait of a given length, the simplest of all strategies."""

from __future__ import annotations

from topology.model.operator import NEVER
from topology.published.clocked_slack import ClockedSlack


class KSlack(ClockedSlack):
    """A wait of `k_ns` >= 0; 0 passes everything on at once."""

    def __init__(self, k_ns: int, *, idle_ns: int = NEVER) -> None:
        super().__init__(idle_ns=idle_ns)
        self._k_ns = k_ns

    def slack_ns(self) -> int:
        return self._k_ns
