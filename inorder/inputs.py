"""What goes into a replay, typed: each as a line of `inorder replay`. See `inorder.records`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from inorder.contract import BYE, DATA, HEARTBEAT


@dataclass(frozen=True, slots=True, kw_only=True)
class RawEvent:
    """An event as its source sends it.

    `seq` may be missing in a stream by time only. `ts_ns` is the source's clock, `arrival_ns` when
    the event reached the log; without it the event arrives at the largest `ts_ns` so far.
    `stream` None: the only one there is, or `default`. `kind`: `heartbeat` and `bye` bear a number
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
        if self.kind not in (DATA, HEARTBEAT, BYE):
            raise ValueError(f"kind {self.kind!r} is not known; write `heartbeat`, `bye` or none")

    def line(self) -> dict[str, Any]:
        """As a line of a recording whose `ts` is in ns."""
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
    """A round of time sync: asked at `t1_ns`, answered at `t4_ns` by the source's clock; received
    at `t2_ns`, answered at `t3_ns` by the server's."""

    source: str
    t1_ns: int
    t2_ns: int
    t3_ns: int
    t4_ns: int
    server: str = ""
    arrival_ns: int | None = None

    def line(self) -> dict[str, Any]:
        """As a line of a recording."""
        rounds = {f"t{at}": getattr(self, f"t{at}_ns") for at in range(1, 5)}
        line = {"clock": self.source, **rounds, "server": self.server or None}
        return _with_arrival(line, self.arrival_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockOffset:
    """From arrival `at_ns` on `offset_ns` is added to the source's times, give or take `error_ns`;
    None takes the last one back."""

    source: str
    at_ns: int
    offset_ns: int | None
    error_ns: int = 0
    arrival_ns: int | None = None

    def line(self) -> dict[str, Any]:
        """As a line of a recording."""
        line = {"clock": self.source, "at": self.at_ns, "offset": self.offset_ns}
        return _with_arrival({**line, "error": self.error_ns}, self.arrival_ns)


def _with_arrival(line: dict[str, Any], arrival_ns: int | None) -> dict[str, Any]:
    return line if arrival_ns is None else {**line, "arrival": arrival_ns}
