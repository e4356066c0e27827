"""`inorder resend` asks the sources to send again the events that the gap ledger lists as missing.

It reads `topics.gaps` from the end of this application's last run. It writes a request for each gap
to `topics.resend` (`inorder.resending`), keyed by the source. Events sent again arrive late and
correct results. A request is written at least once. A source that has sent the events in the
meantime sends duplicates. A record that is not a valid gap is counted and skipped. The first
`MAX_REPORTED` such records of a run are reported with their partitions and offsets.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import click
import orjson
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from cli.as_json import json_option
from cli.kafka_options import Kafka, on_kafka
from cli.printable import escape_unprintable
from cli.topology_file import Refused, follow_option, load, source_named, topology_option
from inorder.resending import Request, request_of
from topology.config import Topology

AT_ONCE: Final = 1_000
WAIT_S: Final = 0.2
TIMEOUT_S: Final = 30.0
MAX_REPORTED: Final = 20
COORDINATING: Final = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""Errors while the group's coordinator starts or moves, as on a new broker."""


@click.command("resend")
@topology_option
@on_kafka()
@source_named(multiple=True)
@click.option("--again", is_flag=True, help="Ask for all gaps, not only for new ones.")
@follow_option
@json_option("RESEND")
def command(
    topology_path: str,
    kafka: Kafka,
    source: tuple[str, ...],
    again: bool,
    follow: bool,
    as_json: bool,
) -> None:
    """Ask sources to send missing events again: all sources, or those of --source (repeatable).

    A source answers if it keeps what it sent: SequencedProducer(resend=...).
    """
    topology = load(topology_path)
    if topology.topics.resend is None:
        raise Refused(
            f"{topology_path}: requests have no topic; write `topics: {{resend: events.resend}}`"
            " and run `inorder topics create`"
        )
    found = kafka.brokers().count_partitions([topology.topics.gaps, topology.topics.resend])
    if absent := [name for name, count in found.items() if not count]:
        raise Refused(
            kafka.why_hidden(*absent)
            or f"{kafka.servers} has no topic {absent[0]}; run `inorder topics create` first"
        )
    asking = Asking(topology, kafka, frozenset(source))
    try:
        for gaps in asking.ask(again, follow):
            if follow and gaps and not as_json:
                click.echo(format_gaps(gaps))
    except KafkaException as error:
        place = f"{topology.topics.gaps}, group {asking.group}"
        raise click.ClickException(f"{place}: {error.args[0].str()}") from error
    except KeyboardInterrupt:
        pass
    finally:
        asking.close()
    if as_json:
        counts = {"gaps": asking.gaps, "numbers": asking.numbers, "unreadable": asking.unreadable}
        click.echo(orjson.dumps(counts))
        return
    click.echo(f"asked for {asking.numbers} numbers in {asking.gaps} gaps", err=True)
    if asking.unreadable:
        click.echo(f"{asking.unreadable} records were not gaps and were skipped", err=True)


def format_gaps(gaps: list[Request]) -> str:
    return "\n".join(
        escape_unprintable(f"{gap.stream} {gap.source} {gap.epoch}: {gap.first} to {gap.last}")
        for gap in gaps
    )


class Asking:
    """A reader of the gap ledger, which writes requests and counts them."""

    def __init__(self, topology: Topology, kafka: Kafka, sources: frozenset[str]) -> None:
        self.gaps = 0
        self.numbers = 0
        self.unreadable = 0
        self.group = f"{topology.application}.resend"
        self._ledger = topology.topics.gaps
        self._requests = topology.topics.resend or ""
        self._sources = sources
        access = kafka.access.to_librdkafka()
        settings = {"bootstrap.servers": kafka.servers, "log_level": 0, **access}
        self._consumer = Consumer(
            {
                **settings,
                "group.id": self.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        self._producer = Producer(
            {**settings, "enable.idempotence": True, "partitioner": "murmur2_random"}
        )

    def ask(self, again: bool, follow: bool) -> Iterator[list[Request]]:
        """Write requests for the gaps of each batch, commit the batch, and yield its gaps."""
        known = self._consumer.list_topics(self._ledger, timeout=TIMEOUT_S)
        unread = set(known.topics[self._ledger].partitions)
        places = [TopicPartition(self._ledger, part, OFFSET_BEGINNING) for part in unread]
        self._consumer.assign(places if again else self._read_committed(places))
        while unread or follow:
            gaps = []
            next_offsets: dict[int, int] = {}
            for message in self._consumer.consume(AT_ONCE, WAIT_S):
                error, part, offset = message.error(), message.partition(), message.offset()
                if error is None:
                    assert part is not None
                    assert offset is not None
                    next_offsets[part] = offset + 1
                    gaps += self._gap_of(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    assert part is not None
                    unread.discard(part)
                elif not error.retriable():  # It may have no partition and no offset.
                    raise KafkaException(error)
            self._ask(gaps)
            if next_offsets:
                done = [TopicPartition(self._ledger, part, at) for part, at in next_offsets.items()]
                self._consumer.commit(offsets=done, asynchronous=False)
            yield gaps

    def _read_committed(self, places: list[TopicPartition]) -> list[TopicPartition]:
        """Return where the last run stopped, or the beginning where no offset is committed.

        A client that is assigned stored offsets may wait forever if it cannot read one.
        """
        until_s = time.monotonic() + TIMEOUT_S
        while True:
            try:
                found = self._consumer.committed(places, timeout=TIMEOUT_S)
                break
            except KafkaException as error:
                if error.args[0].code() not in COORDINATING or time.monotonic() >= until_s:
                    raise
                time.sleep(WAIT_S)
        for place in found:
            if place.error is not None:
                raise KafkaException(place.error)
            if place.offset < 0:
                place.offset = OFFSET_BEGINNING
        return found

    def close(self) -> None:
        self._consumer.close()

    def _gap_of(self, message: Message) -> list[Request]:
        try:
            gap = _gap_in(message.value())
        except ValueError as fault:
            self.unreadable += 1
            if self.unreadable <= MAX_REPORTED:
                place = f"{self._ledger}/{message.partition()}/{message.offset()}"
                click.echo(f"{place} is not a gap and was skipped: {fault}", err=True)
            return []
        if gap is None or (self._sources and gap.source not in self._sources):
            return []
        return [gap]

    def _ask(self, gaps: list[Request]) -> None:
        answers: list[KafkaError | None] = []
        for gap in gaps:
            self._producer.produce(
                self._requests,
                gap.value(),
                gap.source.encode(),
                on_delivery=lambda error, _: answers.append(error),
            )
            self.gaps += 1
            self.numbers += gap.last - gap.first + 1
        left = self._producer.flush(TIMEOUT_S)
        failed = next((each for each in answers if each is not None), None)
        if left or failed:
            why = f"no answer within {TIMEOUT_S:g} s" if failed is None else failed.str()
            raise click.ClickException(f"{self._requests}: {why}")


def _gap_in(value: bytes | None) -> Request | None:
    """Return a request for the gap in a record's value, or None if the value is of another kind.

    Raises `ValueError` if the value is not in the form that a stage writes.
    """
    line = orjson.loads(value or b"{}")
    if not isinstance(line, dict):
        raise ValueError("a JSON object was expected")
    if line.get("kind") != "gap":
        return None
    return request_of(orjson.dumps({name: line[name] for name in Request._fields if name in line}))
