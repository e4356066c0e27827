"""Encodes output records as they are added, and keeps them until a checkpoint takes them.

Encoding does not wait for a commit, so records are processed while the last transaction is in
flight. Memory: the encoded bytes. The partition waits for the commit once `bytes` (of payload) or
`records` exceeds its bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from codec.face import Batch, Target

Headers = Sequence[tuple[str, bytes | None]]


class Outbox:
    """The encoded batches of each target (topic and partition), in the order of `add`.

    `records` and `bytes` are the number of records and the payload bytes since the last `take`.
    """

    def __init__(self, new_batch: Callable[[], Batch]) -> None:
        self._new_batch = new_batch
        self._batches: dict[Target, list[Batch]] = {}
        self.records = 0
        self.bytes = 0

    def add(
        self,
        target: Target,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int | None,
        headers: Headers,
    ) -> None:
        self.count(1, 0 if value is None else len(value))
        batch = self.batch(target)
        if batch.append(key=key, value=value, timestamp=timestamp_ms, headers=headers):
            return
        batch = self.next_batch(target)
        if not batch.append(key=key, value=value, timestamp=timestamp_ms, headers=headers):
            raise ValueError(f"a record for {target[0]} does not fit into an empty batch")

    def batch(self, target: Target) -> Batch:
        """Return the open batch of a target, or a new one if there is none."""
        batches = self._batches.get(target)
        return batches[-1] if batches else self._begin(target)

    def next_batch(self, target: Target) -> Batch:
        """Close the open batch of a target, which is full, and return a new one."""
        self._batches[target][-1].close()
        return self._begin(target)

    def _begin(self, target: Target) -> Batch:
        batch = self._new_batch()
        self._batches.setdefault(target, []).append(batch)
        return batch

    def count(self, records: int, payload_bytes: int) -> None:
        """Count records that were appended to the batches directly; `add` counts its own."""
        self.records += records
        self.bytes += payload_bytes

    def take(self) -> dict[Target, list[Batch]]:
        """Return all batches, and empty the outbox."""
        batches, self._batches = self._batches, {}
        self.records = 0
        self.bytes = 0
        return batches
