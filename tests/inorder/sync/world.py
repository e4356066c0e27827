"""A source, its server and a network in simulated time, without sockets, threads or waiting.

The server's clock is right. Packets are delayed, lost, duplicated and reordered as `Path` defines,
with seeded random numbers.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from inorder.sync.client import WATCH_S
from inorder.sync.conversation import Conversation
from inorder.sync.jumps import JumpWatch
from inorder.sync.keys import KeyRing
from inorder.sync.known import Interval
from inorder.sync.packet import Packet
from inorder.sync.settings import SyncSettings
from producers.sync_server.answering import Answer, Answerer
from tests.inorder.sync.key_file import key_table

NS_PER_S = 1_000_000_000
BEGIN_NS = 1_700_000_000 * NS_PER_S
SETTINGS = SyncSettings("server:1")
KEYS = KeyRing.parse(key_table(1, "ab" * 32, "s1"))


@dataclass
class Path:
    """One way through the network: delays in seconds, `jitter_s` is the mean of the additional
    delay.
    """

    least_s: float = 0.001
    jitter_s: float = 0.0
    lost: float = 0.0
    doubled: float = 0.0

    def delays_ns(self, dice: random.Random) -> list[int]:
        """Return the delay of each duplicate that arrives."""
        if dice.random() < self.lost:
            return []
        copies = 2 if dice.random() < self.doubled else 1
        return [self._delay_ns(dice) for _ in range(copies)]

    def _delay_ns(self, dice: random.Random) -> int:
        jitter_s = dice.expovariate(1 / self.jitter_s) if self.jitter_s else 0.0
        return int((self.least_s + jitter_s) * NS_PER_S)


@dataclass
class Server:
    """A server whose clock is wrong by `lie_ns`; while it is down it receives nothing."""

    lie_ns: int = 0
    is_down: bool = False
    taken: list[Packet] = field(default_factory=list)
    has_room: bool = True
    answers: list[Answer] = field(default_factory=list)


class World:
    """One source whose clock starts `offset_ns` behind the right time and runs `skew_ppb` fast."""

    def __init__(
        self,
        *,
        seed: int = 0,
        forward: Path | None = None,
        backward: Path | None = None,
        both: Path | None = None,
        offset_ns: int = 0,
        skew_ppb: int = 0,
        settings: SyncSettings = SETTINGS,
        keys: KeyRing = KEYS,
        intercept: Callable[[bytes], bytes] = lambda raw: raw,
    ) -> None:
        self.now_ns = BEGIN_NS
        self.server = Server()
        self.jumped_ns = 0
        self._dice = random.Random(seed)
        self._ways = (forward or both or Path(), backward or both or Path())
        self._offset_ns = offset_ns
        self._skew_ppb = skew_ppb
        self._intercept = intercept
        self._under_way: list[tuple[int, int, bool, bytes]] = []
        self._sent = 0
        self.answerer = Answerer(
            keys,
            self._take,
            now_ns=lambda: self.now_ns + self.server.lie_ns,
            monotonic_s=lambda: self.now_s,
        )
        self.watch = JumpWatch(self.source_ns, settings.max_skew_ppb, self._running_ns)
        self.talk = Conversation(
            "s1",
            1,
            keys.of("s1"),
            settings,
            self.source_ns,
            self.watch,
            dice=random.Random(seed + 1),
            nonce=lambda: self._dice.getrandbits(64),
        )

    @property
    def now_s(self) -> float:
        return (self.now_ns - BEGIN_NS) / NS_PER_S

    def source_ns(self) -> int:
        """Return the time of the measured clock."""
        return self._running_ns() + self.jumped_ns - self._offset_ns

    def true_offset_ns(self, source_ns: int) -> int:
        """Return the server's time minus the source's when the source's clock shows `source_ns`."""
        run_ns = source_ns - self.jumped_ns + self._offset_ns - BEGIN_NS
        true_ns = BEGIN_NS + run_ns * NS_PER_S // (NS_PER_S + self._skew_ppb)
        return true_ns - source_ns

    def known(self) -> Interval:
        """Return the source's interval, which must exist."""
        interval = self.talk.interval()
        assert interval is not None
        return interval

    def run(self, seconds: float) -> World:
        """Advance the simulated time by this many seconds."""
        end_ns = self.now_ns + int(seconds * NS_PER_S)
        while True:
            wait_s = min(max(0.0, self.talk.due_s - self.now_s), WATCH_S)
            due_ns = self.now_ns + int(wait_s * NS_PER_S) + 1
            arrives_ns = self._under_way[0][0] if self._under_way else end_ns
            next_ns = min(due_ns, arrives_ns)
            if next_ns >= end_ns:
                self.now_ns = end_ns
                return self
            self.now_ns = max(self.now_ns, next_ns)
            if arrives_ns <= due_ns:
                _, _, to_server, raw = heapq.heappop(self._under_way)
                self._arrive(raw, to_server=to_server)
            else:
                self._send(self.talk.on_time(self.now_s), to_server=True)

    def _arrive(self, raw: bytes, *, to_server: bool) -> None:
        if not to_server:
            self._send(self.talk.on_packet(raw, self.source_ns(), self.now_s), to_server=True)
        elif not self.server.is_down:
            answer = self.answerer.answer(raw, self.now_ns + self.server.lie_ns)
            self.server.answers.append(answer)
            self._send(answer.reply, to_server=False)

    def _send(self, raw: bytes | None, *, to_server: bool) -> None:
        if raw is None:
            return
        raw = self._intercept(raw)
        for delay_ns in self._ways[0 if to_server else 1].delays_ns(self._dice):
            self._sent += 1
            entry = (self.now_ns + delay_ns, self._sent, to_server, raw)
            heapq.heappush(self._under_way, entry)

    def _take(self, sample: Packet) -> bool:
        if self.server.has_room:
            self.server.taken.append(sample)
        return self.server.has_room

    def _running_ns(self) -> int:
        run_ns = self.now_ns - BEGIN_NS
        return BEGIN_NS + run_ns + run_ns * self._skew_ppb // NS_PER_S
