"""What a source may set about its time sync."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from inorder.sync.keys import KeyRing

MAX_SERVERS: Final = 8
MAX_PORT: Final = 65_535
MIN_PAUSE_S: Final = 1.0
"""The shortest wait between two bursts, whatever error is wanted."""


@dataclass(frozen=True, slots=True)
class SyncSettings:
    """`servers` is HOST:PORT, several with commas: all are asked, and readers follow the
    majority.

    A burst is `first_rounds` rounds `gap_s` apart at the start and after a jump of the
    clock, then `rounds`. The wait for the next burst begins at `first_resync_s` and
    doubles up to `resync_s`; where `wanted_error_ns` is given it is cut short so that by
    the next burst the error has grown to that at most, as far as `MIN_PAUSE_S` allows.

    `keys` is the key file (`KeyRing.read`); without it packets are not signed.
    `max_skew_ppb` is how far the source's clock may run wrong, `granularity_ns` the step
    in which it counts.
    """

    servers: str
    keys: KeyRing | None = None
    first_rounds: int = 10
    rounds: int = 4
    gap_s: float = 0.02
    first_resync_s: float = 5.0
    resync_s: float = 60.0
    timeout_s: float = 1.0
    tries: int = 3
    wanted_error_ns: int | None = None
    max_skew_ppb: int = 250_000
    granularity_ns: int = 0

    def __post_init__(self) -> None:
        found = self.addresses()
        if len(found) > MAX_SERVERS:
            raise ValueError(f"{len(found)} sync servers are too many; name {MAX_SERVERS} at most")
        if len(set(found)) < len(found):
            raise ValueError(f"a sync server is twice in {self.servers!r}; name each once")
        least = {
            "first_rounds": 1,
            "rounds": 1,
            "gap_s": 0.0,
            "first_resync_s": MIN_PAUSE_S,
            "resync_s": self.first_resync_s,
            "timeout_s": 0.001,
            "tries": 1,
            "max_skew_ppb": 0,
            "granularity_ns": 0,
        }
        for name, bound in least.items():
            if not bound <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} is {getattr(self, name)}; write {bound} or more")
        if self.wanted_error_ns is not None and self.wanted_error_ns <= 0:
            raise ValueError(f"wanted_error_ns is {self.wanted_error_ns}; write 1 or more")

    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each server. ValueError for what is none."""
        return [_address(text.strip()) for text in self.servers.split(",")]


def _address(text: str) -> tuple[str, int]:
    host, _, digits = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if host and digits.isascii() and digits.isdigit() and 1 <= int(digits[:6]) <= MAX_PORT:
        return host, int(digits)
    raise ValueError(f"{text!r} is no address of a sync server; write HOST:PORT, as sync-1:4123")
