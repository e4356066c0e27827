"""Records on their way out, encoded as they come and sent when a checkpoint commits.

Encoding happens here and not at the commit, so that the work goes on while the last
transaction is still on its way. Memory: the encoded bytes; the partition waits for the
commit once `bytes` (of payload) or `records` pass its bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from codec.face import Batch, Target

Headers = Sequence[tuple[str, bytes | None]]


class Outbox:
    """Batches by (topic, partition), each in the order of `add`."""

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
        """The open one, or a new one."""
        batches = self._batches.get(target)
        return batches[-1] if batches else self._begun(target)

    def next_batch(self, target: Target) -> Batch:
        """A new one, in the place of the one that is full."""
        self._batches[target][-1].close()
        return self._begun(target)

    def _begun(self, target: Target) -> Batch:
        batch = self._new_batch()
        self._batches.setdefault(target, []).append(batch)
        return batch

    def count(self, records: int, payload_bytes: int) -> None:
        """What was put into the batches; `add` does it itself."""
        self.records += records
        self.bytes += payload_bytes

    def take(self) -> dict[Target, list[Batch]]:
        """All batches, and the outbox is empty again."""
        batches, self._batches = self._batches, {}
        self.records = 0
        self.bytes = 0
        return batches
