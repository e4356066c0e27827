"""Finds faults of the consumer groups of the stages.

| check | reason |
|-------|--------|
| members of a group and their topics | a foreign member takes partitions from the stage |
| first and committed offsets | records that are deleted before they are read are lost |
| a backlog of a group without members | nobody runs the stage |

A group that has never read is not a finding, because its stage has not been started yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from agents.kafka.stage_topics import group_of, inputs_of, list_working_stages
from cli.doctor.finding import Finding, error, warning
from cli.doctor.open_transactions import Place, list_offsets
from topology.config import Topology


@dataclass(frozen=True, slots=True)
class SeenGroup:
    """A consumer group as the brokers report it.

    Attributes:
        reads: Topics assigned to each member, by its name.
        next_offsets: Committed offset of each partition.
        logs: First offset and end offset of each partition that has a committed offset.
    """

    reads: Mapping[str, frozenset[str]] = field(default_factory=dict)
    next_offsets: Mapping[Place, int] = field(default_factory=dict)
    logs: Mapping[Place, tuple[int, int]] = field(default_factory=dict)


def seen_group(admin: AdminClient, name: str, described: Any, timeout_s: float) -> SeenGroup | None:
    """Return the group, or None if the brokers do not report it; blocks.

    `described` is the pending answer to the request that describes the group.
    """
    try:
        members = described.result(timeout_s).members
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)])
        committed = asked[name].result(timeout_s).topic_partitions
    except (KafkaException, TimeoutError):
        return None
    reads = {
        f"{each.client_id} at {each.host}": frozenset(
            place.topic for place in each.assignment.topic_partitions
        )
        for each in members
    }
    places = {(each.topic, each.partition): each.offset for each in committed if each.offset >= 0}
    first = list_offsets(admin, places, OffsetSpec.earliest(), timeout_s)  # type: ignore[no-untyped-call]
    end = list_offsets(admin, places, OffsetSpec.latest(), timeout_s)  # type: ignore[no-untyped-call]
    logs = {
        place: (first[place], end[place]) for place in places if place in first and place in end
    }
    return SeenGroup(reads, places, logs)


def group_findings(topology: Topology, groups: Mapping[str, SeenGroup]) -> Iterator[Finding]:
    """Yield the faults of the consumer groups; `groups` has them by name."""
    for stage in list_working_stages(topology):
        name = group_of(topology, stage)
        if (seen := groups.get(name)) is None:
            continue
        inputs = set(inputs_of(topology, stage))
        for member, topics in sorted(seen.reads.items()):
            if strange := sorted(topics - inputs):
                yield error(
                    f"group {name}",
                    f"{member} is in it and reads {', '.join(strange)}, which stage"
                    f" {stage.name} does not read: the stage gets fewer partitions, or none",
                    "stop it, or give it another group; two topologies need different `application`"
                    " names",
                )
        waiting = 0
        for place, offset in sorted(seen.next_offsets.items()):
            if place not in seen.logs or place[0] not in inputs:
                continue
            first, end = seen.logs[place]
            waiting += max(0, end - max(first, offset))
            if offset < first:
                yield error(
                    f"{place[0]}/{place[1]}",
                    f"{first - offset} records were deleted before stage {stage.name} read them",
                    "raise retention.ms and retention.bytes of the topic, and let the stage catch"
                    " up (docs/operate/size.md, Disk and retention)",
                )
        if waiting and not seen.reads:
            yield warning(
                f"group {name}",
                f"has no members, and {waiting} records wait: nobody runs stage {stage.name}",
                f"start it: inorder worker --stage {stage.name}, or without --stage for all",
            )
