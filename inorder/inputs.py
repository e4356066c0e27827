"""Define the inputs of a replay as typed values; each corresponds to a line of `inorder replay`.

See `inorder.records` for the outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from inorder.contract import BYE, DATA, HEARTBEAT


@dataclass(frozen=True, slots=True, kw_only=True)
class RawEvent:
    """An event as its source sends it.

    Attributes:
        source: The source of the event.
        seq: The sequence number. It may be missing only in a stream that is ordered by time.
        ts_ns: The reported timestamp, in ns since 1970.
        arrival_ns: The time at which the event reached the log, in ns since 1970. Without it the
            event arrives at the largest `ts_ns` of all earlier events and its own. One that is
            ahead by more than `clock.max_ahead` counts only if the next event confirms it.
        type: The type of the event.
        payload: The content of the event.
        stream: The stream. None means the only stream of the topology, or `default`.
        epoch: The source's epoch.
        kind: Empty for an ordinary event. Events of kind `heartbeat` and `bye` have a number
            and no payload.
    """

    source: str
    seq: int | None = None
    ts_ns: int | None = None
    arrival_ns: int | None = None
    type: str = ""
    payload: Any = None
    stream: str | None = None
    epoch: int | None = None
    kind: str = DATA

    def __post_init__(self) -> None:
        """Check the kind.

        Raises:
            ValueError: The kind is unknown.
        """
        if self.kind not in (DATA, HEARTBEAT, BYE):
            raise ValueError(f"kind {self.kind!r} is not known; write `heartbeat`, `bye` or none")

    def line(self) -> dict[str, Any]:
        """Return the event as a line of a recording whose `ts` is in ns."""
        values: dict[str, Any] = {"source": self.source}
        if self.seq is not None:
            values["seq"] = self.seq
        if self.ts_ns is not None:
            values["ts"] = self.ts_ns
        if self.arrival_ns is not None:
            values["arrival"] = self.arrival_ns
        if self.type:
            values["type"] = self.type
        if self.stream is not None:
            values["stream"] = self.stream
        if self.epoch is not None:
            values["epoch"] = self.epoch
        if self.kind:
            values["kind"] = self.kind
        if self.payload is not None:
            values["payload"] = self.payload
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSample:
    """The measurement of one round of time sync between a source and a server.

    Attributes:
        source: The source whose clock is measured.
        t1_ns: The time of the request, by the source's clock.
        t2_ns: The time at which the request was received, by the server's clock.
        t3_ns: The time of the answer, by the server's clock.
        t4_ns: The time at which the answer was received, by the source's clock.
        server: The name of the server.
        arrival_ns: The time at which the sample arrived. None: it arrives with the input before.
    """

    source: str
    t1_ns: int
    t2_ns: int
    t3_ns: int
    t4_ns: int
    server: str = ""
    arrival_ns: int | None = None

    def line(self) -> dict[str, Any]:
        """Return the sample as a line of a recording."""
        rounds = {f"t{at}": getattr(self, f"t{at}_ns") for at in range(1, 5)}
        line = {"clock": self.source, **rounds, "server": self.server or None}
        return _with_arrival(line, self.arrival_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockOffset:
    """A declared offset of a source's clock, added to its timestamps from `at_ns` on.

    Attributes:
        source: The source whose clock has the offset.
        at_ns: The arrival time from which the offset applies, in ns since 1970.
        offset_ns: The offset that is added. None ends the last declaration.
        error_ns: The maximum error of the offset in both directions.
        arrival_ns: The time at which the declaration arrived. None: it arrives with the input
            before.
    """

    source: str
    at_ns: int
    offset_ns: int | None
    error_ns: int = 0
    arrival_ns: int | None = None

    def line(self) -> dict[str, Any]:
        """Return the offset as a line of a recording."""
        line = {"clock": self.source, "at": self.at_ns, "offset": self.offset_ns}
        return _with_arrival({**line, "error": self.error_ns}, self.arrival_ns)


def _with_arrival(line: dict[str, Any], arrival_ns: int | None) -> dict[str, Any]:
    return line if arrival_ns is None else {**line, "arrival": arrival_ns}
