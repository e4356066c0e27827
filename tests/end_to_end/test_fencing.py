"""End to end: a partition's former owner that resumes can change nothing any more.

Deliveries run without a worker around them. A pause of the right length would only by chance do
what happens here on purpose.
"""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import TopicPartition

from agents.kafka.brokers import Brokers
from agents.stage.delivery import Checkpoint, CommitFailed, Delivery
from tests.end_to_end.records import read_all
from tests.services import SharedKafka, UniqueName

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TIMEOUT_MS = 10_000


def checkpoint(delivery: Delivery, output: str, word: bytes) -> Checkpoint:
    batch = delivery.new_batch()
    batch.append(key=word, value=word, timestamp=None)
    place = TopicPartition(output, 0)
    return Checkpoint({(output, 0): [batch]}, {b"key": word}, place, {place: 1})


@pytest.mark.parametrize("exactly_once", [True, False], ids=["exactly once", "at least once"])
def test_former_owner_cannot_commit(
    kafka: SharedKafka, unique_name: UniqueName, exactly_once: bool
) -> None:
    output, changelog = unique_name("output"), unique_name("changelog")
    kafka.create_topic(output)
    kafka.create_topic(changelog)
    name = unique_name("id")

    async def play() -> None:
        # A fenced client leaves futures that nobody can await.
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        client = Brokers(kafka.bootstrap, is_embedded=False).client
        before, after = (
            Delivery(
                *(client, name, f"group-{name}", (changelog, 0), TIMEOUT_MS),
                exactly_once=exactly_once,
            )
            for _ in range(2)
        )
        try:
            await before.start()
            await before.commit(checkpoint(before, output, b"first"))
            await after.start()
            with pytest.raises(CommitFailed):
                await before.commit(checkpoint(before, output, b"from the dead"))
            await after.commit(checkpoint(after, output, b"second"))
        finally:
            await before.stop()
            await after.stop()

    asyncio.run(play())
    assert [r.value for r in read_all(kafka.bootstrap, changelog)] == [b"first", b"second"]
    values = [record.value for record in read_all(kafka.bootstrap, output)]
    if exactly_once:
        assert values == [b"first", b"second"]
    else:
        assert set(values) >= {b"first", b"second"}
