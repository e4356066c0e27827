"""Finds out how a new topology file would affect the running application of the same name.

The changelogs contain the contracts under which the states were written. Each is compared with the
contract of the new file (`topology.config.change`). The verdict also depends on facts that are
looked up: buffered events, unread records, and the owner of the records in the outputs. `inorder
check FILE --brokers B` prints the differences. A stage logs its own differences at its start, and
does not begin if one of them is refused.

Cost: the ends of the changelogs are read, some milliseconds a partition, `AT_ONCE` at a time. More
is read only if a stream or an input was removed, or topics between stages would be read
differently.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Final

from aiokafka.structs import TopicPartition

from agents.kafka import stage_topics
from agents.kafka.brokers import Brokers
from agents.kafka.log_reader import LogReader
from agents.restore.rebuilding import StateParts
from agents.stage.arrangement import Arrangement, ArrangementError, arrange, topics_of
from agents.state import changelog as state
from agents.state.changelog import BareProgress, StateRefused
from codec.compression import MAX_OWN_BYTES, MAX_UNPACKED_BYTES
from topology.base.event import Event
from topology.config import StageConfig, Topology, change
from topology.config.change import (
    REFUSED,
    Contract,
    Difference,
    Facts,
    have_same_reading,
    new_start_remedy,
)
from topology.config.stages import operators_named
from topology.stage.lanes import lane_of, offset_in_lane
from topology.stage.registry import buffering_places, operators_of

AT_ONCE: Final = 16
"""Maximum number of partitions whose changelogs are read at the same time."""

SUFFIX: Final = ".changelog"
ANY_MASTER: Final = (b"\0" * 32,)
"""A substitute for the master keys, where records are read and nothing is written."""


@dataclass(slots=True)
class ChangePlan:
    """The differences that a changed file makes, and the facts on which their verdicts depend.

    Attributes:
        differences: The differences, without repetition.
        seen: The contracts that were found, by stage and input partition.
        `lanes`: The upstream partitions that the states have numbered.
        `midstream`: The inputs whose streams came from another input before, by stage.
    """

    differences: list[Difference] = field(default_factory=list)
    seen: dict[str, dict[TopicPartition, Contract]] = field(default_factory=dict)
    lanes: list[tuple[str, int, int]] = field(default_factory=list)
    midstream: dict[str, set[str]] = field(default_factory=dict)


async def plan(brokers: Brokers, topology: Topology, only: StageConfig | None = None) -> ChangePlan:
    """Return the changes for all stages of the topology, or for the stage `only`."""
    if brokers.is_embedded:
        return ChangePlan()
    topics = await asyncio.to_thread(brokers.topics)
    looking = _Looking(brokers, topology, topics)
    try:
        await looking.logs.start()
        return await looking.plan(only)
    finally:
        await looking.logs.stop()


class _Looking:
    """A comparison with all changelogs of an application."""

    def __init__(self, brokers: Brokers, topology: Topology, topics: Mapping[str, int]) -> None:
        self._topology = topology
        self._topics = topics
        self._stages = stage_topics.list_working_stages(topology)
        self._ours = stage_topics.changelogs_of(topology)
        prefix = f"{topology.application}."
        named = [t for t in topics if t.startswith(prefix) and t.endswith(SUFFIX)]
        self._others = [topic for topic in named if topic not in self._ours]
        read = dict.fromkeys(self._find_topics_to_read(), MAX_UNPACKED_BYTES)
        read |= dict.fromkeys(named, MAX_OWN_BYTES)
        self.logs = LogReader(brokers, "inorder-plan", read)
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._claims: dict[str, dict[int, BareProgress]] = {}

    def _find_topics_to_read(self) -> set[str]:
        """Return the existing topics whose records may have to be read."""
        topology = self._topology
        names = {
            topic for stage in self._stages for topic in stage_topics.inputs_of(topology, stage)
        }
        names |= {stream.output for stream in topology.streams.values()}
        names |= {topology.topics.sequenced, *topology.all_result_topics}
        left = {t for t in self._topics for o in self._others if o.endswith(f".{t}{SUFFIX}")}
        return (names | left) & self._topics.keys()

    async def plan(self, only: StageConfig | None) -> ChangePlan:
        made = ChangePlan()
        for changelog, (name, topic) in self._ours.items():
            for number, contract in (await self._read_contracts(changelog)).items():
                made.seen.setdefault(name, {})[TopicPartition(topic, number)] = contract
        tables = [c.lanes for by in made.seen.values() for c in by.values()]
        made.lanes = max(
            tables, key=lambda table: len(change.partitions_in_table(table)), default=[]
        )
        longest = change.partitions_in_table(made.lanes)
        if any(longest[: len(known)] != known for known in map(change.partitions_in_table, tables)):
            anew = new_start_remedy(self._topology)
            raise StateRefused(f"the states number the upstream partitions differently; {anew}")
        for changelog in self._others:
            await self._read_contracts(changelog)
        found: list[Difference] = []
        for stage in self._stages:
            each = await self._plan_stage(stage, made) if self._can_see(stage, only) else []
            # Another stage's differences matter to this one only if they are refused.
            found += [d for d in each if only in (None, stage) or d.verdict == REFUSED]
        found += [
            each
            for name, each in await self._plan_abandoned(made)
            if only is None or {*operators_named(name)} & {*only.operators}
        ]
        made.differences = list(dict.fromkeys(found))
        return made

    def _can_see(self, stage: StageConfig, only: StageConfig | None) -> bool:
        """Return whether a worker that runs the stage `only` can see all topics of `stage`."""
        return only in (None, stage) or {*topics_of(self._topology, stage)} <= self._topics.keys()

    async def _plan_stage(self, stage: StageConfig, made: ChangePlan) -> list[Difference]:
        topology = self._topology
        partitions = {
            topic: self._topics.get(topic) or topology.topics.partitions
            for topic in topics_of(topology, stage)
        }
        for topic in stage_topics.inputs_of(topology, stage):
            changelog = self._changelog(stage.name, topic)
            partitions[changelog] = self._topics.get(changelog) or partitions[topic]
        try:
            arrangement = arrange(topology, stage, partitions, ANY_MASTER, made.lanes)
        except ArrangementError as wrong:
            what, _, remedy = str(wrong).partition("; ")
            return [Difference(change.STAGES, "", stage.name, REFUSED, what, remedy)]
        seen = made.seen.get(stage.name, {})
        claims = [c for log in arrangement.changelogs for c in self._claims[log].values()]
        for claim in claims:
            if claim.format != state.STATE_FORMAT:
                effect = "this version of inorder does not read a state of another format"
                remedy = f"go on with the version that wrote it, or {new_start_remedy(topology)}"
                was, now = f"{claim.format}", f"{state.STATE_FORMAT}"
                return [Difference("state", was, now, REFUSED, effect, remedy)]
        if not seen:
            owned = await self._outputs_of_all(made)
            outputs = sorted({*stage_topics.outputs_of(topology, stage)})
            strange = [t for t in outputs if t in self._topics and t not in owned]
            held = [topic for topic in strange if await self._has_any_records(topic)]
            for log in arrangement.changelogs:
                # Another worker may have written its first state in the meantime.
                self._claims.pop(log, None)
            if held and not any(
                [await self._read_contracts(log) for log in arrangement.changelogs]
            ):
                return [change.refuse_taken(stage.name, held, topology)]
        found = [each async for each in self._check_groups(arrangement)]
        for source, old in seen.items():
            new = arrangement.contract(source)
            facts = await self._facts(arrangement, source, old, new, made)
            found += change.find_differences(old, new, topology, facts)
        known = {name for old in seen.values() for name in old.streams}
        for topic in arrangement.inputs if seen else ():
            if arrangement.group_of(TopicPartition(topic, 0)).name not in seen:
                streams = arrangement.streams_of(topic).keys() - known
                found += [change.judge_added(name, topology) for name in sorted(streams)]
        return found

    async def _check_groups(self, arrangement: Arrangement) -> AsyncIterator[Difference]:
        """Yield the refusal of each input that another task read than the one that reads it now.

        Also yield it for an input that its task no longer reads, if it has unread records, or
        events of it are buffered.
        """
        stage = arrangement.stage.name
        for source, claim in self._states_of(stage):
            for lane, offset in claim.offsets(source).items():
                if lane.topic in arrangement.inputs:
                    now = arrangement.group_of(lane).name
                    if now != source:
                        yield change.refuse_regrouping(lane, source, now, self._topology)
                elif lane != source:
                    contract = self._find_own_contracts(self._changelog(stage, source.topic))[
                        source.partition
                    ]
                    places = change.partitions_in_table(contract.lanes)
                    number = places.index(lane) - places.index(source)
                    if left := await self._find_left(contract, source, lane, offset, number):
                        yield change.refuse_abandoned(stage, lane.topic, left, self._topology)

    def _states_of(self, stage: str) -> Iterator[tuple[TopicPartition, BareProgress]]:
        """Yield the tasks of a stage that have a state, with its progress."""
        begin = self._changelog(stage, "").removesuffix(SUFFIX)
        for changelog in self._claims:
            topic = changelog.removeprefix(begin).removesuffix(SUFFIX)
            for number, contract in self._find_own_contracts(changelog).items():
                if contract.stage == stage:
                    yield TopicPartition(topic, number), self._claims[changelog][number]

    async def _outputs_of_all(self, made: ChangePlan) -> set[str]:
        """Return the topics to which the application's stages write, according to all contracts."""
        known = [contract for by in made.seen.values() for contract in by.values()]
        for changelog in self._others:
            known += (await self._read_contracts(changelog)).values()
        events = {s.output.rpartition("/")[0] for each in known for s in each.streams.values()}
        return events.union(*(each.results.values() for each in known))

    async def _read_contracts(self, changelog: str) -> dict[int, Contract]:
        """Return the contracts by partition; states that this version cannot read are left out."""
        if changelog not in self._claims:
            numbers = range(self._topics.get(changelog, 0))
            found = await asyncio.gather(*(self._read_claim(changelog, n) for n in numbers))
            claims = {n: claim for n, claim in enumerate(found) if claim is not None}
            self._claims[changelog] = claims
        return self._find_own_contracts(changelog)

    def _find_own_contracts(self, changelog: str) -> dict[int, Contract]:
        return {
            number: contract
            for number, claim in self._claims[changelog].items()
            if claim.format == state.STATE_FORMAT
            and (contract := state.contract_of(claim)).application == self._topology.application
        }

    async def _read_claim(self, changelog: str, number: int) -> BareProgress | None:
        async with self._turns:
            return await state.last_claim(self.logs, TopicPartition(changelog, number))

    # -- facts -------------------------------------------------------------------------------------

    async def _facts(
        self, arrangement: Arrangement, source: TopicPartition, old: Contract, new: Contract,
        made: ChangePlan,
    ) -> Facts:  # fmt: skip
        is_gone = bool(old.streams.keys() - new.streams.keys())
        waiting = (
            await self._find_buffered_streams(arrangement, source, old) if is_gone else set[str]()
        )
        is_asked = is_gone or not have_same_reading(old, new)
        return Facts(waiting, is_asked and await self._is_unread(new, made))

    async def _find_buffered_streams(
        self, arrangement: Arrangement, source: TopicPartition, old: Contract
    ) -> set[str]:
        """Return the streams with buffered events in this partition.

        If a buffered event cannot be read, all streams are returned.
        """
        parts, waiting = await self._read_held(old, TopicPartition(*arrangement.changelog(source)))
        former = replace(
            arrangement, topology=change.with_former_reading(arrangement.topology, old.streams)
        )
        places = change.partitions_in_table(old.lanes)
        first = places.index(source) if source in places else 0
        events: list[Event] = []
        for number in sorted({lane_of(each) for each in waiting}):
            lane = TopicPartition(*places[first + number]) if number else source
            of_lane = {each for each in waiting if lane_of(each) == number}
            records = [spilled for at, spilled in parts.spilled.items() if at in of_lane]
            if missing := {offset_in_lane(each) for each in of_lane - parts.spilled.keys()}:
                async with aclosing(self.logs.read_again(lane, missing)) as pieces:
                    async for piece, _ in pieces:
                        records += piece
            events += former.inlet(lane).read_again(records)
        return {event.stream for event in events} if len(events) == len(waiting) else {*old.streams}

    async def _read_held(
        self, old: Contract, changelog: TopicPartition
    ) -> tuple[StateParts, set[int]]:
        """Return the decoded state, and the offsets of the events that wait in it."""
        read = await state.read_changelog(self.logs, changelog, None)
        parts = StateParts()
        for key, value in read.changes.items():
            if value is not None:
                parts.add(key.decode(), value)
        where = buffering_places(operators_of(old.shapes))
        return parts, {note.offset for note in parts.notes.values() if note.places & where}

    async def _is_unread(self, new: Contract, made: ChangePlan) -> bool:
        """Return whether a topic between stages has unread records that need the old settings.

        If the first stage already uses the new settings, the stages after it had read everything
        before it changed.
        """
        topology = self._topology
        first = next(
            s.name for s in self._stages if stage_topics.reads(topology, s) == stage_topics.RAW
        )
        for contract in made.seen.get(first, {}).values():
            is_new = contract.streams.keys() <= topology.streams.keys()
            if is_new and have_same_reading(contract, new):
                return False
        for changelog, (name, topic) in self._ours.items():
            stage = next(stage for stage in self._stages if stage.name == name)
            if stage_topics.reads(topology, stage) == stage_topics.RAW:
                continue
            claims = self._claims[changelog]
            for number in range(self._topics.get(topic, 0)):
                at = claims[number].next_offset if number in claims else 0
                if await self._has_records(TopicPartition(topic, number), at):
                    return True
        return False

    async def _has_any_records(self, topic: str) -> bool:
        places = [TopicPartition(topic, number) for number in range(self._topics[topic])]
        return any([await self._has_records(place, 0) for place in places])

    async def _has_records(self, place: TopicPartition, begin: int) -> bool:
        """Return whether the partition has committed records at or after this offset."""
        is_there = place.topic in self._topics
        return is_there and await self.logs.first_of(place, begin) is not None

    # -- what no stage reads any more --------------------------------------------------------------

    async def _plan_abandoned(self, made: ChangePlan) -> list[tuple[str, Difference]]:
        """Return, with their stages, the differences for inputs that no stage reads any more."""
        found = []
        for changelog in self._others:
            for number, contract in (await self._read_contracts(changelog)).items():
                claim = self._claims[changelog][number]
                begins = self._changelog(contract.stage, "").removesuffix(SUFFIX)
                topic = changelog.removeprefix(begins).removesuffix(SUFFIX)
                for now in self._find_moved(contract, topic):
                    made.midstream.setdefault(contract.stage, set()).add(now)
                    newest = self._find_newest_arrival(contract.stage, now)
                    if newest is not None and newest < claim.arrival[:1]:
                        each = change.refuse_return(contract.stage, topic, now, self._topology)
                        found.append((contract.stage, each))
                if self._was_left(contract.stage, topic, claim, made):
                    continue
                source = TopicPartition(topic, number)
                gone = all(stage.name != contract.stage for stage in self._stages)
                left = (
                    ""
                    if gone
                    else await self._find_left(contract, source, source, claim.next_offset)
                )
                each = change.refuse_abandoned(contract.stage, topic, left, self._topology)
                found.append((contract.stage, each))
        return found

    async def _find_left(
        self,
        contract: Contract,
        source: TopicPartition,
        lane: TopicPartition,
        offset: int,
        number: int | None = None,
    ) -> str:
        """Return the kind of unfinished work on a partition that a remaining stage dropped.

        `source` names the task whose state has it. `offset` is the next one of the partition `lane`
        and `number` its number in the task (None: all events of the task count). The kind is
        `change.BUFFERED`, `change.UNREAD`, or "" if there is none.
        """
        changelog = self._changelog(contract.stage, source.topic)
        _, held = await self._read_held(contract, TopicPartition(changelog, source.partition))
        if any(number is None or lane_of(each) == number for each in held):
            return change.BUFFERED
        return change.UNREAD if await self._has_records(lane, offset) else ""

    def _find_moved(self, contract: Contract, topic: str) -> set[str]:
        """Return the inputs from which the streams of this former input come now."""
        streams = self._topology.streams
        return {
            streams[name].input
            for name, was in contract.streams.items()
            if was.input == topic and name in streams
        }

    def _find_newest_arrival(self, stage: str, topic: str) -> list[int] | None:
        """Return the arrival time of the newest state of this input; None if it has no state."""
        claims = self._claims.get(self._changelog(stage, topic), {}).values()
        return max((claim.arrival[:1] for claim in claims), default=None)

    def _was_left(self, stage: str, topic: str, claim: BareProgress, made: ChangePlan) -> bool:
        """Return whether an earlier change dropped this input, and others were processed since."""
        later = (
            self._claims[self._changelog(stage, place.topic)][place.partition]
            for place, contract in made.seen.get(stage, {}).items()
            if topic not in contract.inputs
        )
        return any(other.arrival[:1] > claim.arrival[:1] for other in later)

    def _changelog(self, stage: str, topic: str) -> str:
        return stage_topics.changelog_topic(self._topology.application, stage, topic)
