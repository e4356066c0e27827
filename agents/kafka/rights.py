"""Lists the minimal rights of each stage for brokers that allow nothing by default.

A stage reads its input and, to correct timestamps, the clock feed. It writes its outputs and
reports, and has its own changelog, group and transactional ids. At its start it reads its
outputs and the application's changelogs. So it sees which application wrote their records, and how
a changed topology file affects them (agents.restore.plan). It needs Describe for a topic whose
partitions it only counts. A stage that takes time from the brokers writes to a topic that shows
their clocks (agents.kafka.broker_times). The stage with MERGE may delete records of
`events.sequenced` that no stage needs any more.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from agents.kafka import stage_topics
from topology.config import StageConfig, Topology
from topology.config.stages import MERGE, REORDER

DELETE: Final = "Delete"
DESCRIBE: Final = "Describe"
READ: Final = "Read"
WRITE: Final = "Write"


class Kind(StrEnum):
    """The type of resource that a right applies to."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"


class Right(NamedTuple):
    """A right to the resource `name`, or with `prefixed` to all whose names begin with `name`."""

    kind: Kind
    name: str
    operations: tuple[str, ...]
    prefixed: bool = False


def list_rights(topology: Topology, stage: StageConfig) -> list[Right]:
    """Return the rights of a stage, each once; an empty list if the stage has no work."""
    if not stage_topics.has_work(topology, stage):
        return []
    needed: dict[str, set[str]] = {}

    def add(operation: str, *topics: str) -> None:
        for topic in topics:
            needed.setdefault(topic, set()).add(operation)

    topics, operators = topology.topics, stage.operators
    inputs = stage_topics.inputs_of(topology, stage)
    add(READ, *inputs)
    if stage_topics.reads(topology, stage) == stage_topics.SEQUENCED:
        add(DESCRIBE, *stage_topics.list_upstream_inputs(topology))
    if REORDER in operators and any(s.clock.sync != "none" for s in topology.streams.values()):
        add(READ, topics.clock)
    outputs = stage_topics.outputs_of(topology, stage)
    add(WRITE, *outputs)
    add(READ, *outputs)
    orders = {REORDER, MERGE} & set(operators)
    add(WRITE if orders else DESCRIBE, topics.late, topics.gaps)
    add(WRITE, topics.dead)
    changelogs = [stage_topics.changelog_topic(topology.application, stage.name, t) for t in inputs]
    add(READ, *changelogs)
    add(WRITE, *changelogs)
    if (broker_times := stage_topics.broker_times_topic(topology, stage)) is not None:
        add(WRITE, broker_times)
    group = stage_topics.group_of(topology, stage)
    others = []
    if stage_topics.must_purge(topology, stage):
        add(DELETE, topics.sequenced)
        others = [each for each in stage_topics.list_sequenced_readers(topology) if each != group]
    return [
        *(
            Right(Kind.TOPIC, name, tuple(sorted(operations)))
            for name, operations in needed.items()
        ),
        Right(Kind.TOPIC, f"{topology.application}.", (READ,), prefixed=True),
        Right(Kind.GROUP, group, (READ,)),
        *(Right(Kind.GROUP, other, (DESCRIBE,)) for other in others),
        Right(Kind.TRANSACTIONAL_ID, f"{group}.", (DESCRIBE, WRITE), prefixed=True),
    ]
