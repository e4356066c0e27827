"""Assigns partition groups to the members of a consumer group, each group to one member.

A task reads several input partitions (`agents.kafka.partition_queue.PartitionGroup`), so all of
them must go to one worker. The groups follow from the topology file, which all workers share.

The assignment is *even*: two members differ by at most one group. It is *sticky*: a member keeps
the groups that it had, as far as that is even. Each member names them when it joins. A worker with
a name that was restarted gets those that it had under this name, while the same member leads. A
member without a group is a standby.

The client's hooks are class methods, so each consumer has a class of its own (`make_assignor`). The
version of this protocol is in its name. A worker that does not know it cannot join the group.

Cost: O(partitions + members) for each rebalance, in one member.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)
from aiokafka.structs import TopicPartition

from agents.kafka.partition_queue import PartitionGroup

NAME: Final = "inorder-groups-1"
VERSION: Final = 0

Owned = Callable[[], Collection[TopicPartition]]
"""A function that returns a partition of each group that this worker has, or had last."""


class MemberClaim(msgspec.Struct):
    """The name of a member, "" without one, and a partition of each group that it has.

    Any partition of a group claims it. Its first one may change when inputs are added.
    """

    name: str = ""
    owns: list[tuple[str, int]] = []


def make_assignor(
    together: Sequence[Collection[str]], owned: Owned, name: str | None = None
) -> type[Any]:
    """Return the assignor of one consumer.

    `together` has the topics whose partitions form one group each. Each partition of any other
    topic is a group by itself. `name` is the worker's name in the consumer group.
    """
    remembered: dict[str, list[TopicPartition]] = {}
    my_name = name or ""

    class Assignor(AbstractPartitionAssignor):  # type: ignore[misc]
        name = NAME

        @classmethod
        def metadata(cls, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
            claim = msgspec.json.encode(
                MemberClaim(my_name, [(*each,) for each in sorted(owned())])
            )
            return ConsumerProtocolMemberMetadata(VERSION, sorted(topics), claim)

        @classmethod
        def assign(
            cls, cluster: ClusterMetadata, members: Mapping[str, ConsumerProtocolMemberMetadata]
        ) -> dict[str, ConsumerProtocolMemberAssignment]:
            topics = {topic for each in members.values() for topic in each.subscription}
            partitions = [
                TopicPartition(topic, number)
                for topic in sorted(topics)
                for number in sorted(cluster.partitions_for_topic(topic) or ())
            ]
            groups = group_partitions(partitions, together)
            read = {member: claim_of(each.user_data) for member, each in members.items()}
            name_of = {lane: name for name, each in groups.items() for lane in each.lanes}
            claims = {
                member: [
                    name_of[place]
                    for place in claim.owns or remembered.get(claim.name, [])
                    if place in name_of
                ]
                for member, claim in read.items()
            }
            shares = distribute(groups, claims)
            remembered.clear()
            remembered.update({read[each].name: names for each, names in shares.items()})
            remembered.pop("", None)
            return {member: _make_assignment(groups, names) for member, names in shares.items()}

        @classmethod
        def on_assignment(cls, assignment: ConsumerProtocolMemberAssignment) -> None:
            """Do nothing, because the worker itself knows what it has."""

    return Assignor


def group_partitions(
    partitions: Sequence[TopicPartition], together: Sequence[Collection[str]]
) -> dict[TopicPartition, PartitionGroup]:
    """Return the groups of these partitions by name."""
    found: dict[Any, list[TopicPartition]] = {}
    for partition in partitions:
        at = [number for number, topics in enumerate(together) if partition.topic in topics]
        found.setdefault(at[0] if at else partition, []).append(partition)
    groups = [PartitionGroup(lanes[0], tuple(lanes)) for lanes in found.values()]
    return {group.name: group for group in groups}


def claim_of(user_data: bytes | None) -> MemberClaim:
    """Return what a member claims; nothing if that cannot be read."""
    try:
        return msgspec.json.decode(user_data or b"{}", type=MemberClaim)
    except msgspec.MsgspecError:
        return MemberClaim()


def distribute(
    groups: Collection[TopicPartition], claims: Mapping[str, Collection[TopicPartition]]
) -> dict[str, list[TopicPartition]]:
    """Return the groups of each member, evenly, and as they were as far as possible.

    A group that several members claim, as after a partition of the network, goes to the first.
    """
    members = sorted(claims, key=lambda member: (-len({*claims[member]} & {*groups}), member))
    fewest, more = divmod(len(groups), max(len(members), 1))
    free = dict.fromkeys(sorted(groups))
    shares: dict[str, list[TopicPartition]] = {}
    room = {member: fewest + (rank < more) for rank, member in enumerate(members)}
    for member in members:
        kept = [name for name in sorted({*claims[member]}) if name in free][: room[member]]
        for name in kept:
            del free[name]
        shares[member] = kept
    left = iter(free)
    for member in members:
        while len(shares[member]) < room[member]:
            shares[member].append(next(left))
    return {member: sorted(names) for member, names in shares.items()}


def _make_assignment(
    groups: Mapping[TopicPartition, PartitionGroup], names: Collection[TopicPartition]
) -> ConsumerProtocolMemberAssignment:
    topics: dict[str, list[int]] = {}
    for name in names:
        for partition in groups[name].lanes:
            topics.setdefault(partition.topic, []).append(partition.partition)
    assigned = [(topic, sorted(numbers)) for topic, numbers in sorted(topics.items())]
    return ConsumerProtocolMemberAssignment(VERSION, assigned, b"")
