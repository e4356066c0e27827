"""Starts an application on topics that another application has written, from a given time on.

Each partition of each stage gets a first state with the offset at which reading begins. In an input
topic that is the first record that arrived at the given time or later. In a topic between stages it
is the end of the log. The state also says that it begins inside a stream, so no window, join or
pattern emits results that began before. From then on the workers find a state and continue with it.
The states of a stage are written in one transaction, before the stage runs. An existing state of
the application is kept.
"""

from __future__ import annotations

import logging

from aiokafka import AIOKafkaProducer
from aiokafka.structs import TopicPartition

from agents.kafka.brokers import Brokers
from agents.kafka.stage_topics import list_working_stages
from agents.restore.plan import ANY_MASTER, plan
from agents.stage.arrangement import Arrangement, arrange, topics_of
from agents.stage.arrival import ArrivalClock
from agents.state import changelog
from agents.state.changelog import LaneProgress, Progress
from topology.config import Topology
from topology.stage.stage import SOURCES

log = logging.getLogger(__name__)


async def take_over(brokers: Brokers, topology: Topology, since_ms: int) -> None:
    """Write the first states of each stage that has none.

    `since_ms` is the given time, in milliseconds since the epoch. Raises KafkaError if another
    process takes over at the same time.
    """
    known = brokers.topics()
    for stage in list_working_stages(topology):
        partitions = {topic: known.get(topic, 0) for topic in topics_of(topology, stage)}
        arrangement = arrange(topology, stage, partitions, ANY_MASTER)
        producer = AIOKafkaProducer(
            **brokers.client, transactional_id=f"{arrangement.group}.take-over"
        )
        await producer.start()  # The start fences every other process that takes over.
        try:
            if (await plan(brokers, topology)).seen.get(stage.name):
                log.info("stage %s has a state, and continues with it", stage.name)
                continue
            begins = await _make_first_progress(brokers, arrangement, since_ms)
            async with producer.transaction():
                for source, begin in begins.items():
                    topic, partition = arrangement.changelog(source)
                    value = changelog.encode(begin)
                    await producer.send(topic, value, changelog.PROGRESS, partition)
        finally:
            await producer.stop()
        for source, begin in begins.items():
            for lane, offset in begin.offsets(source).items():
                place = f"{lane.topic}/{lane.partition}"
                log.info("takes over: %s reads from offset %d of %s", stage.name, offset, place)


async def _make_first_progress(
    brokers: Brokers, arrangement: Arrangement, since_ms: int
) -> dict[TopicPartition, Progress]:
    sources = [
        TopicPartition(topic, number)
        for topic in arrangement.inputs
        for number in range(arrangement.partitions[topic])
    ]
    async with brokers.reader() as reader:
        offsets = await reader.end_offsets(sources)
        if arrangement.is_first:
            times = await reader.offsets_for_times(dict.fromkeys(sources, since_ms))
            offsets |= {source: at.offset for source, at in times.items() if at is not None}
    ids, begins = brokers.topic_ids(arrangement.inputs), {}
    arrival = ArrivalClock(0).snapshot()
    for name in dict.fromkeys(arrangement.group_of(source).name for source in sources):
        begin = begins[name] = arrangement.progress(name, ids.get(name.topic, ""))
        begin.next_offset, begin.midstream, begin.arrival = offsets[name], SOURCES, arrival
        begin.lanes = [
            LaneProgress(
                lane.topic, lane.partition, offsets[lane], arrival, ids.get(lane.topic, "")
            )
            for lane in arrangement.group_of(name).lanes
            if lane != name
        ]
    return begins
