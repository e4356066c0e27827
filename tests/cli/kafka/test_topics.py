"""Examples: `inorder topics create`: replication, inputs that grew, and inputs that it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewPartitions,
)

from agents.exits import Exit
from agents.kafka.topics import Outcome
from cli.kafka.topics import hint_of_few_replicas
from cli.local.embedded import EmbeddedBroker
from tests.cli.invoking import inorder, text_file
from tests.services import SharedKafka, UniqueName


def creating(
    kafka: SharedKafka, folder: Path, unique_name: UniqueName, raw: str, *, stream: str = ""
) -> list[str]:
    """Return the command that creates topics with one partition and unique names."""
    own = ("sequenced", "gaps", "late", "dead", "clock")
    names = ", ".join(f"{key}: {unique_name(key)}" for key in own)
    path = text_file(
        folder / "t.yaml",
        f"streams: {{default: {{input: {raw}, output: {unique_name('out')}{stream}}}}}\n"
        f"application: {unique_name('app')}\ntopics: {{partitions: 1, {names}}}\n",
    )
    return ["topics", "create", "--topology", str(path), "--brokers", kafka.bootstrap]


@pytest.mark.kafka
def test_one_broker_needs_no_settings(
    kafka: SharedKafka, unique_name: UniqueName, tmp_path: Path
) -> None:
    create = creating(kafka, tmp_path, unique_name, unique_name("raw"))
    made = inorder(*create).well()
    # The only line explains the stages, so no line is about replication.
    assert made.err.startswith("the file names no stages, and one task reads all partitions")
    assert made.err.count("\n") == 1
    assert {line.split()[0] for line in made.out.splitlines()} == {"created"}
    again = inorder(*create)
    assert {line.split()[0] for line in again.out.splitlines()} == {"exists"}


@pytest.mark.kafka
def test_grown_input_needs_grow_option(
    kafka: SharedKafka, unique_name: UniqueName, tmp_path: Path
) -> None:
    raw = unique_name("raw")
    create = creating(kafka, tmp_path, unique_name, raw, stream=", keyed_by: stream")
    inorder(*create).well()
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_partitions([NewPartitions(raw, 2)])[raw].result(30)
    for more in ((), ("--json",)):
        refused = inorder(*create, *more)
        assert refused.code == Exit.REFUSED
        assert "fewer partitions than their inputs" in refused.err
        assert "run `inorder topics create --grow`" in refused.err
    inorder(*create, "--grow").well("to 2 partitions")
    inorder(*create).well()


@pytest.mark.kafka
def test_compacted_input_is_refused(
    kafka: SharedKafka, unique_name: UniqueName, tmp_path: Path
) -> None:
    path, raw, out = tmp_path / "t.yaml", unique_name("raw"), unique_name("out")
    kafka.create_topic(raw, config={"cleanup.policy": "compact,delete"})
    path.write_text(f"streams: {{default: {{input: {raw}, output: {out}}}}}\n")
    for more in ((), ("--grow", "--json")):
        inorder(
            "topics", "create", "--topology", path, "--brokers", kafka.bootstrap, *more
        ).refused(
            f"{raw} is compacted: only the newest record of each key remains",
            f"--entity-name {raw} --add-config cleanup.policy=delete",
        )
    assert out not in AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics().topics


@pytest.mark.kafka
def test_too_many_replicas_are_refused(
    kafka: SharedKafka, unique_name: UniqueName, tmp_path: Path
) -> None:
    path = text_file(
        tmp_path / "t.yaml",
        f"streams: {{default: {{input: {unique_name('raw')}}}}}\ntopics: {{replication: 3}}\n",
    )
    inorder("topics", "create", "--topology", path, "--brokers", kafka.bootstrap).refused(
        "write `topics: {replication: N}` with N at most the number of brokers",
        "only 1 broker(s) are registered",
        code=1,
    )


def test_embedded_broker_is_refused(embedded_broker: EmbeddedBroker, tmp_path: Path) -> None:
    path = text_file(tmp_path / "t.yaml", "streams: {default: {}}\n")
    inorder("topics", "create", "--topology", path, "--brokers", embedded_broker.bootstrap).refused(
        "is the embedded broker of `inorder dev`", "--broker kafka"
    )


@pytest.mark.parametrize(
    ("copies", "brokers", "thin"), [(1, 1, False), (1, 2, True), (2, 2, False), (2, 3, True),
                                    (3, 3, False), (3, 5, False), (1, 5, True)],
)  # fmt: skip
def test_low_replication_is_reported(copies: int, brokers: int, thin: bool) -> None:
    outcomes = [
        Outcome(name, created=True, copies=each, brokers=brokers)
        for name, each in (("a", 3), ("b", copies))
    ]
    warning = hint_of_few_replicas(outcomes)
    assert (warning is not None) == thin
    assert warning is None or f"topics have {copies} copies on {brokers} brokers" in warning
