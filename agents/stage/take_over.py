"""Begins an application in topics that another has written, from a stated instant on.

Each partition of each stage gets a first state that says where it begins: in input topics with the
first record appended at the instant or later, in topics between stages behind all that is there. It
says too that it begins amid a stream, so no window, join or pattern emits what began before. From
then on the workers find a state and go on with it. Done before a stage runs, and once: an
application that has a state keeps it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from aiokafka.structs import TopicPartition
from msgspec import Raw

from agents.kafka.brokers import Brokers
from agents.kafka.stage_topics import works
from agents.stage.arrangement import Arrangement, arrange, topics_of
from agents.stage.arrival import arrival_clock
from agents.stage.delivery import Checkpoint, Delivery
from agents.state import changelog
from agents.state.changelog import Progress
from topology.config import Topology

log = logging.getLogger(__name__)

NewDelivery = Callable[[Arrangement, TopicPartition], Delivery]


async def take_over(
    brokers: Brokers, topology: Topology, since_ms: int, new_delivery: NewDelivery
) -> None:
    """Write the first state of each partition that has none. `since_ms`: the instant, since the
    epoch."""
    known = brokers.topics()
    for stage in topology.stages:
        if not works(topology, stage):
            continue
        partitions = {topic: known.get(topic, 0) for topic in topics_of(topology, stage)}
        arrangement = arrange(topology, stage, partitions, (b"\0" * 32,))
        if brokers.written(arrangement.changelogs):
            log.info("stage %s has a state, and goes on with it", stage.name)
            continue
        sources = [
            TopicPartition(topic, number)
            for topic in arrangement.inputs
            for number in range(partitions[topic])
        ]
        async with brokers.reader() as reader:
            ends = await reader.end_offsets(sources)
            if arrangement.is_first:
                times = await reader.offsets_for_times(dict.fromkeys(sources, since_ms))
                ends |= {source: at.offset for source, at in times.items() if at is not None}
        ids = brokers.topic_ids(arrangement.inputs)
        for source in sources:
            delivery = new_delivery(arrangement, source)
            await delivery.start()
            try:
                begin = _first(arrangement, source, ends[source], ids.get(source.topic, ""))
                changes = {changelog.PROGRESS: changelog.encode(begin)}
                await delivery.commit(Checkpoint({}, changes, source, ends[source]))
            finally:
                await delivery.stop()
            place = f"{source.topic}/{source.partition}"
            log.info("takes over: %s begins at offset %d of %s", stage.name, ends[source], place)


def _first(
    arrangement: Arrangement, source: TopicPartition, offset: int, topic_id: str
) -> Progress:
    topology = arrangement.topology
    clock = arrival_clock(topology, source.topic, topology.tick_lag_ns, embedded=False)
    contract = Raw(changelog.encode(arrangement.contract(source)))
    form = changelog.STATE_FORMAT
    return Progress(offset, clock.snapshot(), contract, topic_id, form, 0, 0, amid=True)
