"""A source on the other side of a network, as a separate program.

    python -m tests.inorder.sync.far_end HOST:PORT SOURCE ROUNDS TIMEOUT_S

Its clock is an hour behind the machine's and runs 100 ppm fast. The program prints one line of
JSON: the client's status after `ROUNDS` rounds, and the true offset.
"""

from __future__ import annotations

import json
import sys
import time

from inorder.sync.client import SyncClient
from inorder.sync.settings import SyncSettings

BEHIND_NS = 3_600 * 10**9
SKEW_PPM = 100
POLL_S = 0.02


class WrongClock:
    """A clock that is one hour behind and 100 ppm fast."""

    def __init__(self) -> None:
        # Take the one of ten readings with the shortest pause between the two clocks.
        self.begin_ns, self._begun_ns = min(
            ((time.time_ns(), time.monotonic_ns()) for _ in range(10)),
            key=lambda read: read[1] - read[0],
        )

    def __call__(self) -> int:
        run_ns = time.monotonic_ns() - self._begun_ns
        return self.begin_ns - BEHIND_NS + run_ns + run_ns * SKEW_PPM // 10**6


def truth_ns(begin_ns: int, stamp_ns: int) -> int:
    """Return what must be added to a timestamp of a `WrongClock` that began at `begin_ns`."""
    run_ns = (stamp_ns - begin_ns + BEHIND_NS) * 10**6 // (10**6 + SKEW_PPM)
    return begin_ns + run_ns - stamp_ns


def main(server: str, source: str, rounds: int, timeout_s: float) -> None:
    clock = WrongClock()
    settings = SyncSettings(server, timeout_s=0.5, first_resync_s=1.0, resync_s=2.0)
    client = SyncClient(source, settings, clock=clock)
    client.start()
    deadline_s = time.monotonic() + timeout_s
    while client.status().rounds < rounds and time.monotonic() < deadline_s:
        time.sleep(POLL_S)
    status = client.status()
    stamp_ns = clock()
    client.close()
    told = {
        "rounds": status.rounds,
        "failures": status.failures,
        "offset": status.offset_ns,
        "error": status.error_ns,
        "truth": truth_ns(clock.begin_ns, stamp_ns),
        "stamp": stamp_ns,
        "skew_ppb": settings.max_skew_ppb,
        "step": settings.granularity_ns,
        "begin": clock.begin_ns,
        "segment": status.segment,
    }
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
