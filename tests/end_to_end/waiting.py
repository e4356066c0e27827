"""Wait until an application has emitted all that it was sent."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.end_to_end.records import Reader
from tests.end_to_end.setting import Setting
from tests.waiting import QUIET_S, Patience


class Emitted:
    """A count of the different events that have been emitted, in order, late or dead."""

    def __init__(self, setting: Setting) -> None:
        topics = setting.topology.topics
        self._ordered = Reader(setting.bootstrap, setting.ordered)
        self._aside = [Reader(setting.bootstrap, t) for t in (topics.late, topics.dead)]
        self._names: set[tuple[str, int, int]] = set()
        self._taken = 0
        self._moved_s = 0.0
        self.longest_silence_s = 0.0

    def poll(self, timeout_s: float = 0.1) -> int:
        self._ordered.poll(timeout_s)
        for reader in self._aside:
            reader.poll(0)
        new = [r.name for r in self._ordered.records[self._taken :] if not r.is_control]
        now_s = time.monotonic()
        if self._names:  # An unfinished silence also counts.
            self.longest_silence_s = max(self.longest_silence_s, now_s - self._moved_s)
        if new:
            self._moved_s = now_s
            self._names.update(new)
        self._taken = len(self._ordered.records)
        return len(self._names) + sum(len(reader.records) for reader in self._aside)

    def wait_for(
        self,
        count: int,
        meanwhile: Callable[[], object] = lambda: None,
        quiet_s: float = QUIET_S,
    ) -> None:
        """Wait until `count` events are emitted.

        Raises AssertionError if nothing comes for `quiet_s`.
        """
        patience = Patience(quiet_s)
        while (found := self.poll()) < count:
            meanwhile()
            patience.look(found, lambda: f"{count} events, of which {self.poll(0)} came out")

    def close(self) -> None:
        for reader in (self._ordered, *self._aside):
            reader.close()


def wait_out(setting: Setting, count: int) -> None:
    """Wait until `count` events are emitted."""
    emitted = Emitted(setting)
    emitted.wait_for(count)
    emitted.close()
