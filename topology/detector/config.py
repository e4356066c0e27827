"""What a query with a detector asks for, checked (`topology.config.QueryConfig`)."""

from __future__ import annotations

from dataclasses import dataclass

from topology.answer.quality import Answering
from topology.detector.result_event import UpstreamQuery


@dataclass(frozen=True, slots=True)
class DetectorConfig(Answering):
    """`key`: a path into the payload; None: all events are of one key. `granted_ppm`: what
    reading ahead may take of a processor. `max_ahead_ns`: the clock of the stream is never further
    beyond that of arrival.
    `is_ahead`: events come as the merge accepts them, with its marks (`flow.accepted`).
    `reads`: queries whose results are events for it, and `reads_stream`: so are those of the
    stream. `lag_ns`: results of these may come so far behind what is final. `below`: what the
    results of these depend on. `max_events`: held until they are final; at the bound what was
    read is made final, `max_keys`: keys with a state; what comes for one more is left out. Both
    are counted. `functions_digest`: of the texts of the detector and of what it reads is computed
    by, empty where they have none."""

    query: str
    detector: str
    key: tuple[str, ...] | None = None
    granted_ppm: int = 500_000
    max_ahead_ns: int = 3_600 * 10**9
    max_events: int = 1_000_000
    max_keys: int = 1_000_000
    is_ahead: bool = False
    reads: tuple[UpstreamQuery, ...] = ()
    reads_stream: bool = True
    lag_ns: int = 0
    below: tuple[bytes, ...] = ()
    functions_digest: str = ""

    @property
    def fingerprint(self) -> bytes:
        """Equal for queries whose results are the same: however they answer."""
        own: tuple[object, ...] = (self.query, self.detector, self.key)
        if self.reads:
            own = (*own, self.reads, self.reads_stream, self.below)
        return repr(own).encode()

    @property
    def known_by(self) -> bytes:
        """Return what the state is known by: the fingerprint, and the texts of the functions."""
        return self.fingerprint + self.functions_digest.encode()
