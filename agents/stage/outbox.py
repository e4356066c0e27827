"""Records on their way out, encoded as they come and sent when a checkpoint commits.

Encoding happens here and not at the commit, so that the work goes on while the last
transaction is still on its way. Memory: the encoded bytes; the partition waits for the
commit once `bytes` (of payload) or `records` pass its bound.

Proved by: tests/agents/stage/test_outbox.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

BatchBuilder = Any
"""aiokafka's, from `AIOKafkaProducer.create_batch`."""

Headers = Sequence[tuple[str, bytes | None]]


class Outbox:
    """Batches by (topic, partition), each in the order of `add`."""

    def __init__(self, new_batch: Callable[[], BatchBuilder]) -> None:
        self._new_batch = new_batch
        self._batches: dict[tuple[str, int], list[BatchBuilder]] = {}
        self._open: dict[tuple[str, int], BatchBuilder] = {}
        self.records = 0
        self.bytes = 0

    def add(
        self,
        target: tuple[str, int],
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int | None,
        headers: Headers,
    ) -> None:
        batch = self._open.get(target)
        self.records += 1
        if value is not None:
            self.bytes += len(value)
        if batch is not None:
            if batch.append(key=key, value=value, timestamp=timestamp_ms, headers=headers):
                return
            batch.close()
        batch = self._open[target] = self._new_batch()
        self._batches.setdefault(target, []).append(batch)
        if not batch.append(key=key, value=value, timestamp=timestamp_ms, headers=headers):
            raise ValueError(f"a record for {target[0]} does not fit into an empty batch")

    def take(self) -> dict[tuple[str, int], list[BatchBuilder]]:
        """All batches, and the outbox is empty again."""
        batches, self._batches = self._batches, {}
        self._open.clear()
        self.records = 0
        self.bytes = 0
        return batches
