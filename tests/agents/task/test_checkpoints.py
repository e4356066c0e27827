"""Examples: commits without an answer, failing fences, refused rights and too small limits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY, AsyncMock, Mock, call, patch

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    IllegalOperation,
    InvalidTxnState,
    KafkaError,
    MessageSizeTooLargeError,
    NodeNotReadyError,
    ProducerFenced,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)
from aiokafka.structs import TopicPartition

from agents.stage import delivery
from agents.stage.checkpoint_size import FEWEST, CheckpointSize
from agents.stage.delivery import Checkpoint, CommitFailed, EndUnanswered
from agents.state.changelog import LogRead
from agents.task.checkpoints import PartitionCheckpoints
from tests.agents.records import close
from tests.agents.task.test_partition import Delivery, batch, partition_of

Changes = Mapping[bytes, bytes | None]

CHANGES: Changes = {b"progress": b"7", b"state/a": b"x", b"page/1": None}
PLACE = TopicPartition("raw", 3)
CHECKPOINT = Checkpoint({}, CHANGES, PLACE, {PLACE: 7})


class Unanswered(Delivery):
    """A delivery whose first commit gets no answer."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []
        self.cannot_renew = False

    async def commit(self, checkpoint: Checkpoint) -> int:
        self.steps.append("commit")
        await super().commit(checkpoint)
        if self.steps == ["commit"]:
            raise EndUnanswered("connection closed")
        return 20

    async def renew(self) -> None:
        self.steps.append("renew")
        if self.cannot_renew:
            raise TimeoutError("the coordinator is away")


class World:
    """A `PartitionCheckpoints` with fake surroundings."""

    def __init__(self, changes: Changes, log_end: int = 12) -> None:
        self.delivery = Unanswered()
        self.size = CheckpointSize(10_000_000_000)
        self.metrics = Mock()
        committing: Any = self.delivery
        restoring: Any = SimpleNamespace(changes_since=self._since, check_end=Mock())
        copying: Any = SimpleNamespace(note=Mock())
        nothing: Any = None
        self.checkpoints = PartitionCheckpoints(
            *(nothing, nothing, committing, restoring, copying, self.size, self.metrics),
            every_s=0.0,
        )
        self.checkpoints.log_end = log_end
        self._found = LogRead(dict(changes), 17)

    async def _since(self, position: int) -> LogRead:
        self.delivery.steps.append(f"read from {position}")
        return self._found

    def commit(self) -> None:
        asyncio.run(self.checkpoints._commit(CHECKPOINT, 10, 10))


def test_commit_found_in_log_counts(caplog: pytest.LogCaptureFixture) -> None:
    world = World(CHANGES)
    with caplog.at_level(logging.WARNING):
        world.commit()
    assert world.delivery.steps == ["commit", "renew", "read from 12"]
    assert world.checkpoints.log_end == 17
    assert world.metrics.mock_calls == [call.count_unanswered("committed"), call.count_commit(ANY)]
    assert "raw/3: the brokers did not answer" in caplog.text


FAILED: dict[str, Changes] = {
    "it is not there": {},
    "another owner wrote": {**CHANGES, b"state/b": b"y"},
    "half of it is there": {b"progress": b"7"},
    "somebody has gone on": {**CHANGES, b"progress": b"8"},
}


@pytest.mark.parametrize("found", FAILED.values(), ids=FAILED)
def test_commit_missing_in_log_fails(found: Changes) -> None:
    world = World(found)
    with pytest.raises(CommitFailed, match="connection closed.*it was not"):
        world.commit()
    assert world.metrics.mock_calls == [call.count_unanswered("aborted"), call.count_abort()]
    assert world.size.records == FEWEST // 2


def test_failed_renewal_fails_commit() -> None:
    world = World(CHANGES)
    world.delivery.cannot_renew = True
    with pytest.raises(CommitFailed, match="coordinator is away"):
        world.commit()
    assert world.metrics.mock_calls == [call.count_abort()]


def test_checkpoint_is_owed_till_commit() -> None:
    checkpoints: Any = World(CHANGES).checkpoints
    checkpoints.outbox = SimpleNamespace(records=[])
    assert not checkpoints.is_owed
    checkpoints.taken = 1
    assert checkpoints.is_owed
    checkpoints.taken, checkpoints._in_flight = 0, object()
    assert checkpoints.is_owed


async def test_partition_continues_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Unanswered()
    partition = partition_of(answers)

    async def there(_: int) -> LogRead:
        return LogRead(dict(answers.committed[0].changes), 5)

    monkeypatch.setattr(partition.checkpoints.restoring, "changes_since", there)
    await partition.take(batch(0))
    await partition.checkpoints.await_commit()
    await partition.take(batch(1))
    await close(partition)
    assert answers.offsets == [1, 2]
    assert answers.steps == ["commit", "renew", "commit"]


def unnamed_refusal() -> KafkaError:
    """Return the client's error for a refused commit of offsets."""
    error = KafkaError("Unexpected error during batch delivery")
    error.__cause__ = TopicAuthorizationFailedError()
    return error


async def commit_error(ended_by: Exception | None, after_it: Exception) -> CommitFailed:
    """Return the failure of a commit whose transaction and later requests meet these errors."""
    client = {"bootstrap_servers": "nowhere:1"}
    new = delivery.Delivery(client, "app.raw.3", "app", ("changelog", 3), 10_000, exactly_once=True)
    waiter = asyncio.get_running_loop().create_future()
    if ended_by is not None:
        waiter.set_exception(ended_by)
    new._changes._txn_manager._transaction_waiter = waiter
    with (
        patch.object(AIOKafkaProducer, "begin_transaction", side_effect=after_it),
        pytest.raises(CommitFailed) as failed,
    ):
        await new.commit(Checkpoint({}, {}, PLACE, {PLACE: 7}))
    await new.stop()
    return failed.value


# -- errors of a producer --------------------------------------------------------------------------


@pytest.mark.parametrize("exactly_once", [True, False])
@pytest.mark.parametrize("knows_a_broker", [True, False])
async def test_fence_timeout_names_the_id(
    monkeypatch: pytest.MonkeyPatch, knows_a_broker: bool, exactly_once: bool
) -> None:
    async def never(_: AIOKafkaProducer) -> None:
        assert knows_a_broker, "Did we not perform bootstrap?"  # As the client says it.
        await asyncio.Event().wait()

    async def nothing() -> None:
        """Do nothing before the end of a transaction."""

    monkeypatch.setattr(delivery, "START_TIMEOUT_S", 0.01)
    monkeypatch.setattr(AIOKafkaProducer, "start", never)
    client = {"bootstrap_servers": "nowhere:1"}
    name, changelog = "app.merge.raw.3", ("changelog", 3)
    new = delivery.Delivery(client, name, "app.merge", changelog, 10_000, exactly_once=exactly_once)
    for starting in (
        new.start(),
        delivery.fence(client, [name]),
        delivery.commit_together(client, name, 10_000, {}, {}, nothing),
    ):
        with pytest.raises(TimeoutError, match=r"id app\.merge\.raw\.3 .* __transaction_state"):
            await starting
    await new.stop()


async def test_other_assertion_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wrong_loop(_: AIOKafkaProducer) -> None:
        raise AssertionError("another loop")

    monkeypatch.setattr(AIOKafkaProducer, "start", wrong_loop)
    with pytest.raises(AssertionError, match="another loop"):
        await delivery.fence({"bootstrap_servers": "nowhere:1"}, ["app.merge.raw.3"])


@pytest.mark.parametrize(
    ("ended_by", "after_it", "says"),
    [
        (
            TopicAuthorizationFailedError({"ordered", "late"}),
            InvalidTxnState(),
            "refuse Write on topic late, ordered; `inorder topics acls`",
        ),
        (None, TopicAuthorizationFailedError("ordered"), "refuse Write on topic ordered;"),
        (
            TransactionalIdAuthorizationFailed("app.raw.3"),
            KafkaError("closed"),
            "refuse Write on transactional-id app.raw.3;",
        ),
        (GroupAuthorizationFailedError("app"), IllegalOperation(), "refuse Read on group app;"),
        (unnamed_refusal(), KafkaError("closed"), "refuse Read on topic raw;"),
        (ClusterAuthorizationFailedError(), KafkaError(), "IdempotentWrite on the cluster;"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
async def test_commit_names_refused_right(
    ended_by: Exception | None, after_it: Exception, says: str
) -> None:
    refused = await commit_error(ended_by, after_it)
    assert isinstance(refused, delivery.CommitRefused)
    assert says in str(refused)


async def test_commit_names_first_error() -> None:
    failed = await commit_error(ProducerFenced("another"), InvalidTxnState())
    assert not isinstance(failed, delivery.CommitRefused)
    assert str(failed).startswith("ProducerFenced: ")


@pytest.mark.parametrize("error", [MessageSizeTooLargeError, RecordListTooLargeError])
async def test_refusing_topic_is_named(error: type[Exception]) -> None:
    answers = [asyncio.get_running_loop().create_future() for _ in range(2)]
    answers[0].set_result(None)
    answers[1].set_exception(error())
    sent = [*zip(("late", "dead"), answers, strict=True)]
    with pytest.raises(CommitFailed, match=r"dead does not accept .*max\.message\.bytes"):
        await delivery._await_all(sent)


@pytest.mark.parametrize(
    "error", [asyncio.InvalidStateError("invalid state"), NodeNotReadyError(), TimeoutError()]
)
def test_failing_stop_closes_client(error: Exception) -> None:
    producer = AsyncMock()
    producer.stop.side_effect = error
    asyncio.run(delivery._stop(producer))
    producer.client.close.assert_awaited_once()
