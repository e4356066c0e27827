"""Define the settings of a source's time sync."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from inorder.sync.keys import KeyRing

MAX_SERVERS: Final = 8
MAX_PORT: Final = 65_535
MIN_PAUSE_S: Final = 1.0
"""The minimum wait between two bursts, even if `wanted_error_ns` would need a shorter one."""


@dataclass(frozen=True, slots=True)
class SyncSettings:
    """The settings of a source's time sync.

    A burst has `first_rounds` rounds, `gap_s` apart, at the start and after a jump of the clock,
    and `rounds` later. The wait for the next burst begins at `first_resync_s` and doubles up to
    `resync_s`. If `wanted_error_ns` is set, the wait is shorter where needed. The error then does
    not exceed that value before the next burst, as far as `MIN_PAUSE_S` allows.

    Attributes:
        servers: HOST:PORT; several are separated by commas. All are asked, and readers follow
            the majority.
        keys: The keys of the key file (`KeyRing.read`). None: packets are not signed.
        first_rounds: The number of rounds in a first burst.
        rounds: The number of rounds in a later burst.
        gap_s: The time between the rounds of a burst, in seconds.
        first_resync_s: The first wait between bursts, in seconds.
        resync_s: The maximum wait between bursts, in seconds.
        timeout_s: The time for which a try waits for its answer, in seconds.
        tries: The maximum number of times that a packet is sent if there is no answer.
        wanted_error_ns: The maximum error that the offset should have. None: no limit.
        max_skew_ppb: The maximum rate error of the source's clock, in parts per billion.
        granularity_ns: The step of the source's clock.
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
        """Check the addresses and the bounds.

        Raises:
            ValueError: A value is invalid. The message says what to write.
        """
        found = self.addresses()
        if len(found) > MAX_SERVERS:
            raise ValueError(f"{len(found)} sync servers are too many; name at most {MAX_SERVERS}")
        if len(set(found)) < len(found):
            raise ValueError(f"a sync server occurs twice in {self.servers!r}; name each once")
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
        """Return the host and port of each server.

        Raises:
            ValueError: An address is invalid.
        """
        return [_parse_address(text.strip()) for text in self.servers.split(",")]


def _parse_address(text: str) -> tuple[str, int]:
    host, _, digits = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if host and digits.isascii() and digits.isdigit() and 1 <= int(digits[:6]) <= MAX_PORT:
        return host, int(digits)
    raise ValueError(
        f"{text!r} is not the address of a sync server; write HOST:PORT, such as sync-1:4123"
    )
