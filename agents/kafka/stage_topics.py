"""Derives a stage's topics, changelogs and consumer group from the topology alone.

No Kafka client is imported here, so that a topology can be inspected quickly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from topology.config import StageConfig, Topology
from topology.config.stages import MERGE, REORDER

RAW: Final = "raw"
SEQUENCED: Final = "sequenced"
ORDERED: Final = "ordered"


def has_work(topology: Topology, stage: StageConfig) -> bool:
    """Return whether the stage has any work.

    A stage that only evaluates queries has none if there are no queries.
    """
    return any(topology.has_work(name) for name in stage.operators)


def list_working_stages(topology: Topology) -> list[StageConfig]:
    """Return the stages that have any work."""
    return [stage for stage in topology.stages if has_work(topology, stage)]


def reads(topology: Topology, stage: StageConfig) -> str:
    """Return the kind of topics that the stage reads: RAW, SEQUENCED or ORDERED."""
    return topology.reads_of(stage.operators[0])


def inputs_of(topology: Topology, stage: StageConfig) -> list[str]:
    """Return the topics that the stage reads."""
    found = reads(topology, stage)
    if found == SEQUENCED:
        return [topology.topics.sequenced]
    streams = topology.streams.values()
    return sorted({stream.output if found == ORDERED else stream.input for stream in streams})


def events_of(topology: Topology, stage: StageConfig) -> dict[str, str]:
    """Return, for each stream, the topic to which the stage writes the stream's events."""
    if MERGE in stage.operators:
        return {name: stream.output for name, stream in topology.streams.items()}
    streams = topology.streams if REORDER in stage.operators else ()
    return dict.fromkeys(streams, topology.topics.sequenced)


def results_of(topology: Topology, stage: StageConfig) -> tuple[dict[str, str], dict[str, str]]:
    """Return the stage's result topics by operator, and by query with its own topic."""
    operators, queries = stage.operators, topology.queries
    targets = {kind: at for kind, at in topology.result_topics.items() if kind in operators}
    tables = {q: at for q, at in topology.result_tables.items() if queries[q].kind in operators}
    return targets, tables


def outputs_of(topology: Topology, stage: StageConfig) -> list[str]:
    """Return the topics to which the stage writes events and results."""
    targets, tables = results_of(topology, stage)
    events = sorted({*events_of(topology, stage).values()})
    return [*events, *targets.values(), *tables.values()]


def list_upstream_inputs(topology: Topology) -> list[str]:
    """Return the topics whose partitions the header `lane` of `events.sequenced` numbers."""
    return sorted({stream.input for stream in topology.streams.values()})


def group_of(topology: Topology, stage: StageConfig) -> str:
    """Return the stage's consumer group, which is also the prefix of its transactional ids."""
    return f"{topology.application}.{stage.name}"


def changelog_topic(application: str, stage: str, input_topic: str) -> str:
    """Return the name of a changelog, without the `+` of a stage's name, which Kafka refuses."""
    return f"{application}.{stage.replace('+', '-')}.{input_topic}.changelog"


def changelogs_of(topology: Topology) -> dict[str, tuple[str, str]]:
    """Return all changelogs, each with its stage and its input topic."""
    return {
        changelog_topic(topology.application, stage.name, topic): (stage.name, topic)
        for stage in list_working_stages(topology)
        for topic in inputs_of(topology, stage)
    }


def group_inputs(topology: Topology, stage: StageConfig) -> list[list[str]]:
    """Return the input topics whose partitions one task of the stage reads, for each such task.

    The partitions of all other topics are read by a task each.
    """
    reads_together = reads(topology, stage) == RAW and MERGE in stage.operators
    return topology.topics_read_together if reads_together else []


def count_changelog_partitions(topology: Topology, known: Mapping[str, int]) -> dict[str, int]:
    """Return the number of partitions that each changelog needs, for the inputs in `known`.

    It is one for each task: that of the input, or 1 if a task reads the whole topic.
    """
    whole = {
        (stage.name, topic)
        for stage in list_working_stages(topology)
        for topics in group_inputs(topology, stage)
        for topic in topics
    }
    return {
        changelog: 1 if place in whole else known[place[1]]
        for changelog, place in changelogs_of(topology).items()
        if place[1] in known
    }


def broker_times_topic(topology: Topology, stage: StageConfig) -> str | None:
    """Return the topic that shows the brokers' clocks; None if the stage needs none.

    A stage needs it if it reads an input whose arrival times come from the brokers.
    """
    settings = {topology.arrival_of(name)[0] for name in list_upstream_inputs(topology)}
    if reads(topology, stage) != RAW or settings.isdisjoint((None, "append")):
        return None
    return f"{topology.application}.broker-times"


def list_sequenced_readers(topology: Topology) -> list[str]:
    """Return the groups that read `events.sequenced`."""
    return [
        group_of(topology, stage)
        for stage in list_working_stages(topology)
        if reads(topology, stage) == SEQUENCED
    ]


def must_purge(topology: Topology, stage: StageConfig) -> bool:
    """Return whether the stage deletes records of `events.sequenced` that no stage needs."""
    return MERGE in stage.operators and reads(topology, stage) == SEQUENCED
