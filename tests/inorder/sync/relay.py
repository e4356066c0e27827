"""A bad network for datagrams, in user space: delay, jitter, loss, duplicates, reordering.

The relay listens on the loopback, and passes datagrams between a source and one server. It needs no
privileges and no netem in the kernel.
"""

from __future__ import annotations

import heapq
import random
import selectors
import socket
import threading
import time
from collections import Counter
from typing import Self

from tests.inorder.sync.world import NS_PER_S, Path

LOOPBACK = "127.0.0.1"
MAX_BYTES = 2_048
TICK_S = 0.05
JOIN_S = 5.0


class Relay:
    """A context manager that delays datagrams on the path `forward` to the server and `backward`
    from it.
    """

    def __init__(self, port: int, forward: Path, backward: Path, seed: int = 1) -> None:
        self._server = (LOOPBACK, port)
        self._ways = {"forward": forward, "backward": backward}
        self._dice = random.Random(seed)
        self._inner = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._outer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for each in (self._inner, self._outer):
            each.bind((LOOPBACK, 0))
            each.setblocking(False)  # noqa: FBT003
        self.name = "{}:{}".format(*self._outer.getsockname())
        self._source: tuple[str, int] | None = None
        self._under_way: list[tuple[float, int, str, bytes]] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self.counts: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join(JOIN_S)
        self._inner.close()
        self._outer.close()

    def _run(self) -> None:
        with selectors.DefaultSelector() as arrivals:
            arrivals.register(self._outer, selectors.EVENT_READ, "forward")
            arrivals.register(self._inner, selectors.EVENT_READ, "backward")
            while not self._ending.is_set():
                for key, _ in arrivals.select(self._wait_s()):
                    self._take(key.data)
                self._pass_on()

    def _wait_s(self) -> float:
        if not self._under_way:
            return TICK_S
        return max(0.0, min(TICK_S, self._under_way[0][0] - time.monotonic()))

    def _take(self, way: str) -> None:
        raw, address = (self._outer if way == "forward" else self._inner).recvfrom(MAX_BYTES)
        if way == "forward":
            self._source = address
        delays_ns = self._ways[way].delays_ns(self._dice)
        self.counts["lost"] += not delays_ns
        self.counts["doubled"] += len(delays_ns) > 1
        for delay_ns in delays_ns:
            self.counts[way] += 1
            due_s = time.monotonic() + delay_ns / NS_PER_S
            heapq.heappush(self._under_way, (due_s, self.counts.total(), way, raw))

    def _pass_on(self) -> None:
        while self._under_way and self._under_way[0][0] <= time.monotonic():
            _, _, way, raw = heapq.heappop(self._under_way)
            if way == "forward":
                self._inner.sendto(raw, self._server)
            elif self._source is not None:
                self._outer.sendto(raw, self._source)
