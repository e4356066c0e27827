"""End to end: Kafka, the command, each kind of store, and kill -9 in mid-flow.

The topic holds results in transactions, some of them aborted, with control and malformed records
between them. Each sink is killed several times while it writes. At the end the stores match the
oracle, and every malformed record has its dead letter.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from pathlib import Path

import pytest

from infra.postgres import PostgresServer
from infra.redis import RedisServer
from sinks.files import Form
from tests.services import SharedKafka, UniqueName
from tests.sinks.kinds import places_of
from tests.sinks.results import MemorySink, same
from tests.sinks.sink_process import SinkProcess, served
from tests.sinks.topic import ResultsProducer, group_has_read, history, never_committed
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.redis,
    pytest.mark.postgres,
    pytest.mark.slow,
]

TRANSACTIONS = 200
PER_TRANSACTION = 100
CHANGES_PER_ID = 4
ABORTED_EVERY = 7
BATCH = 20
"""Records of a batch: few, so that one is always read and not yet committed."""

WRITTEN_BEFORE_KILL = 100


def publish(producer: ResultsProducer) -> MemorySink:
    """Publish the results, and return a sink with all that the stores should hold."""
    changes = TRANSACTIONS * PER_TRANSACTION
    results = history(seed=5, ids=changes // CHANGES_PER_ID, changes=changes)
    oracle = MemorySink()
    for number in range(TRANSACTIONS):
        some = list(islice(results, PER_TRANSACTION))
        oracle.write(some)
        producer.records(
            [
                *((each.id.encode(), each.record, dict[str, bytes]()) for each in some),
                (b"r1", b'{"id": "r1", "revision": "high"}', {}),
                (b"", None, {"kind": b"frontier"}),
            ]
        )
        if number % ABORTED_EVERY == 0:
            producer.records([never_committed(each.id) for each in some], abort=True)
    return oracle


@pytest.mark.parametrize("kills", [2, pytest.param(3, marks=pytest.mark.chaos)])
def test_stores_match_the_oracle(
    kafka: SharedKafka,
    redis_server: RedisServer,
    postgres_server: PostgresServer,
    unique_name: UniqueName,
    tmp_path: Path,
    kills: int,
) -> None:
    topic = unique_name("results")
    kafka.create_topic(topic, partitions=3)
    places = places_of(redis_server, postgres_server, topic, tmp_path / "out", Form.PARQUET)
    sinks = {
        kind: SinkProcess(
            kind,
            tmp_path / kind,
            *(kind, "--brokers", kafka.bootstrap, "--topic", topic),
            *("--group", f"{topic}.{kind}", "--batch", str(BATCH), *options),
        )
        for kind, (_, options) in places.items()
    }
    with ResultsProducer(kafka.bootstrap, topic) as producer:
        oracle = publish(producer)
    has_read = {
        kind: partial(
            group_has_read, kafka.bootstrap, topic, f"{topic}.{kind}", producer.next_offsets
        )
        for kind in sinks
    }
    with served(sinks.values()):
        for _ in range(kills):
            for kind, sink in sinks.items():
                sink.wait_until_written(WRITTEN_BEFORE_KILL)
                assert sink.process.kill() == -9
                assert not has_read[kind](), f"{kind} was done before it was killed"
                sink.start()
        for kind, sink in sinks.items():
            wait_until(has_read[kind], f"sink {kind}", sink.metrics)
            assert sink.process.stop() == 0, sink.log
    expected = same(oracle.current())
    assert len(oracle.known) / 2 < len(expected) < len(oracle.known)
    for kind, (place, _) in places.items():
        assert same(place.current()) == expected, kind
        coordinates = {(each["partition"], each["offset"]) for each in sinks[kind].dead_letters}
        assert len(coordinates) == TRANSACTIONS, kind
    left_over = {path.name.split("-")[0] for path in (tmp_path / "out").glob("_*")}
    assert left_over == {"_marks"}
