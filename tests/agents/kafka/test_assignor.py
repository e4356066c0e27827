"""Laws: each group goes to one member, shares are even, and a member keeps its partitions."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from aiokafka.structs import TopicPartition

from agents.kafka.assignor import distribute, group_partitions, make_assignor

TOPICS = {"a": 4, "b": 3, "c": 2}
TOGETHER = (["a", "b"],)


def places(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(TOPICS[topic])]


EVERY = [place for topic in TOPICS for place in places(topic)]
CLUSTER: Any = SimpleNamespace(partitions_for_topic=lambda topic: {*range(TOPICS[topic])})


def join_metadata(member: Any) -> ConsumerProtocolMemberMetadata:
    """Return a member's metadata as the broker passes it to the leader."""
    metadata = member.metadata([*TOPICS])
    return ConsumerProtocolMemberMetadata.decode(metadata.encode())


def test_topics_read_together_are_grouped() -> None:
    groups = group_partitions(EVERY, TOGETHER)
    assert [group.lanes for group in groups.values()] == [
        (*places("a"), *places("b")),
        *((place,) for place in places("c")),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_shares_are_even_and_stable(seed: int) -> None:
    rng = Random(seed)
    groups = [TopicPartition("t", number) for number in range(rng.randrange(12))]
    shares: dict[str, list[TopicPartition]] = {}
    for _ in range(10):
        members = rng.sample("abcdef", rng.randint(1, 6))
        before = {each: shares.get(each, []) for each in members}
        shares = distribute(groups, before)
        assert sorted(name for names in shares.values() for name in names) == groups
        sizes = [len(names) for names in shares.values()]
        assert max(sizes) - min(sizes) <= 1
        for member, names in before.items():
            kept = {*names} & {*shares[member]}
            assert len(kept) == min(len(names), len(shares[member])), "one moved without need"
        assert distribute(groups, shares) == shares


def test_contested_group_has_one_owner() -> None:
    one = TopicPartition("t", 0)
    assert sorted(map(len, distribute([one], {"a": [one], "b": [one]}).values())) == [0, 1]


def test_restarted_worker_keeps_share() -> None:
    owned: dict[str, list[TopicPartition]] = {"x": [], "y": []}
    workers = {
        name: make_assignor(TOGETHER, lambda name=name: owned[name], name)  # type: ignore[misc]
        for name in owned
    }
    leader = workers["x"]

    def assign() -> dict[str, list[TopicPartition]]:
        members = {f"{name}-1": join_metadata(worker) for name, worker in workers.items()}
        found = leader.assign(CLUSTER, members)
        return {name: found[f"{name}-1"].partitions() for name in workers}

    first = assign()
    assert sorted(place for share in first.values() for place in share) == EVERY
    group = {*places("a"), *places("b")}
    assert all({*share} >= group or not {*share} & group for share in first.values())
    owned["x"] = [*{group.name: 0 for group in group_partitions(first["x"], TOGETHER).values()}]
    assert assign() == first


@pytest.mark.parametrize("claimed", [*places("a"), *places("b")])
@pytest.mark.parametrize("owner", ["x", "y"])
def test_any_partition_claims_group(owner: str, claimed: TopicPartition) -> None:
    """A worker can name its group by a partition other than the one the leader uses."""
    owned = {"x": [places("c")[0]], "y": [places("c")[0]], owner: [claimed]}
    workers = {name: make_assignor(TOGETHER, each.copy) for name, each in owned.items()}
    found = workers["x"].assign(
        CLUSTER, {name: join_metadata(each) for name, each in workers.items()}
    )
    assert {*found[owner].partitions()} >= {*places("a"), *places("b")}


@pytest.mark.parametrize("claim", [b"", b"{", b"[1]", b'{"owns": 3}', b'{"owns": [["z", 9]]}'])
def test_invalid_claim_is_ignored(claim: bytes) -> None:
    stranger = ConsumerProtocolMemberMetadata(0, [*TOPICS], claim)
    found = make_assignor(TOGETHER, list).assign(CLUSTER, {"s": stranger})
    assert found["s"].partitions() == EVERY
