"""Moves the state of a drained application to the stages that its changed file names.

The stages of a file may change: one task that has outgrown a core is cut, or stages are joined
again. Everything else of the file must be as it runs. Then each operator goes on where it stopped,
in its new stage (`agents.restore.moved_state`).

It needs a drained application without workers: its inputs are read to their ends, and no operator
that orders events has any. Between stages, reports of progress may be unread: the next one says
the same and more. So nothing is in flight, and the new stages can begin at the ends of their
topics.

One transaction has all new states, the offsets of the new groups, and the removal of the former
states. So an interrupted run changes nothing, and a second run finds nothing to move. A worker with
the former file is refused afterwards, since its state is gone and its group is not. Before
anything is read, the former owners are fenced: their open transactions would hide the last
checkpoint. Before the end of the transaction, the groups must still have no members.

Memory: several times the states of all former tasks, with the events that they hold.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from aiokafka.structs import TopicPartition
from confluent_kafka import KafkaError, KafkaException
from prometheus_client import CollectorRegistry

from agents.kafka import stage_topics
from agents.kafka.brokers import TIMEOUT_S, Brokers, admin_client
from agents.kafka.log_reader import LogReader
from agents.restore.moved_state import FormerTask, moved_states, spread
from agents.restore.partition_state import PartitionState
from agents.restore.plan import SUFFIX, plan
from agents.restore.rebuilding import Rebuilding
from agents.restore.restoring import is_whole
from agents.restore.services import Services
from agents.stage.arrangement import Arrangement, arrange, topics_of
from agents.stage.delivery import Target, commit_together, fence, transactional_id
from agents.state import changelog
from agents.state.stores.seal import StateTally
from agents.watch.metrics.worker import Metrics
from codec.compression import MAX_OWN_BYTES, MAX_UNPACKED_BYTES
from topology.base.event import PROGRESS, WATERMARK
from topology.config import StageConfig, Topology
from topology.config.change import ENDS, STAGES
from topology.config.stages import ALL, list_operators, operators_named

DRAIN: Final = (
    "stop the producers, run a worker with the former `stages` until `inorder explain` shows no lag"
    " and no buffered event, and then each later stage alone (--stage); then stop it"
)
SHOWN: Final = 6
"""The maximum number of partitions that one message names."""


class NotMoved(Exception):
    """The state cannot be moved now; the message has the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Move:
    """A move of state from the stages `was` to the stages `now`.

    Attributes:
        offsets: The next offsets of the partitions that the new stages read, by group.
        entries: Number of entries of the new states.
    """

    was: Sequence[str]
    now: Sequence[str]
    offsets: Mapping[str, Mapping[TopicPartition, int]]
    entries: int


async def recut(
    brokers: Brokers, topology: Topology, masters: tuple[bytes, ...] = (), *, is_trial: bool = False
) -> Move | None:
    """Move the state to the stages of this topology; None if it is there already.

    With `is_trial`, nothing is written, and no former owner is fenced. Raises NotMoved if the
    application is not drained, has workers, or differs in anything but its stages. Raises
    StateRefused and ArrangementError as a worker does, and KafkaError if the brokers refuse.
    """
    if brokers.is_embedded:
        raise NotMoved("the broker of `inorder dev` keeps no state: start it again with the file")
    topics = await asyncio.to_thread(brokers.topics)
    needed = [
        t
        for stage in stage_topics.list_working_stages(topology)
        for t in topics_of(topology, stage)
    ]
    if absent := sorted({*needed} - topics.keys()):
        raise NotMoved(f"no such topic: {', '.join(absent)}; run `inorder topics create` first")
    names = await _names_with_state(brokers, topology, topics)
    former = _lay_out_stages(topology, names)
    was, now = stage_topics.list_working_stages(former), stage_topics.list_working_stages(topology)
    stay = {stage.name for stage in was} & {stage.name for stage in now}
    gone = [stage for stage in was if stage.name not in stay]
    come = [stage for stage in now if stage.name not in stay]
    if not names or not (gone or come):
        return None
    _refuse_other_operators(was, now, topology)
    moving = _Moving(brokers, topics, masters, former, topology, gone, come)
    return await moving.run(is_trial=is_trial)


async def _names_with_state(
    brokers: Brokers, topology: Topology, topics: Mapping[str, int]
) -> set[str]:
    """Return the names of the stages that have a state."""
    prefix = f"{topology.application}."
    named = [t for t in topics if t.startswith(prefix) and t.endswith(SUFFIX)]
    logs = LogReader(brokers, "inorder-recut", dict.fromkeys(named, MAX_OWN_BYTES))
    names: set[str] = set()
    try:
        await logs.start()
        for topic in named:
            for number in range(topics[topic]):
                claim = await changelog.last_claim(logs, TopicPartition(topic, number))
                contract = None if claim is None else changelog.contract_of(claim)
                if contract is not None and contract.application == topology.application:
                    names.add(contract.stage)
    finally:
        await logs.stop()
    return {n for n in names if any(map(topology.has_work, operators_named(n)))}


def _lay_out_stages(topology: Topology, names: Iterable[str]) -> Topology:
    """Return the topology with the stages of these names."""
    order = list_operators()
    found = [StageConfig(tuple(operators_named(name))) for name in names]
    found.sort(key=lambda stage: order.index(stage.operators[0]))
    stages = None if ALL in names else tuple(found)
    former = topology.model_copy(update={"stages_written": stages})
    if more := sorted({*names} - {stage.name for stage in former.stages}):
        raise NotMoved(
            f"`{ALL}` has a state, and so have {', '.join(more)}: it is not known which ran last;"
            " begin anew (docs/operate/change.md)"
        )
    return former


def _refuse_other_operators(
    was: Sequence[StageConfig], now: Sequence[StageConfig], topology: Topology
) -> None:
    """Raise NotMoved if an operator has a state in several stages, or none yet."""
    had = [name for stage in was for name in stage.operators if topology.has_work(name)]
    wanted = {name for stage in now for name in stage.operators if topology.has_work(name)}
    if twice := sorted({name for name in had if had.count(name) > 1}):
        raise NotMoved(
            f"several stages have a state of {', '.join(twice)}; write the stages that ran last"
        )
    if new := sorted(wanted - {*had}):
        raise NotMoved(
            f"no stage has a state of {', '.join(new)} yet; run the file with the former `stages`"
            " until it has, and change nothing else meanwhile"
        )


@dataclass(eq=False)
class _Moving:
    """The move from the stages `was` of the topology `former` to the stages `now` of `topology`."""

    brokers: Brokers
    topics: Mapping[str, int]
    masters: tuple[bytes, ...]
    former: Topology
    topology: Topology
    was: Sequence[StageConfig]
    now: Sequence[StageConfig]

    async def run(self, *, is_trial: bool) -> Move:
        await self._refuse_members()
        made = await plan(self.brokers, self.former)
        changed = [each for each in made.differences if (each.path, each.verdict) != (STAGES, ENDS)]
        if changed:
            raise NotMoved(
                "the file differs from the running application in more than its stages; change one"
                f" after the other: {changed[0]}"
            )
        before = [self._arrange(self.former, stage, made.lanes) for stage in self.was]
        after = [self._arrange(self.topology, stage, made.lanes) for stage in self.now]
        for arrangement in (*before, *after):
            if (stream := spread(arrangement)) is not None:
                raise NotMoved(
                    f"each partition of {', '.join(arrangement.inputs)} is a task of its own"
                    f" (`keyed_by: stream`), and the file does not say which has {stream}; keep the"
                    " stages, or begin anew (docs/operate/change.md)"
                )
        if not is_trial:
            await fence(self.brokers.client, [_transaction_name(before), *_ids_of(before)])
        read = {t: MAX_UNPACKED_BYTES for a in (*before, *after) for t in a.inputs}
        read |= {t: MAX_OWN_BYTES for t in self.topics if t.endswith(SUFFIX)}
        logs = LogReader(self.brokers, "inorder-recut", read)
        try:
            await logs.start()
            return await self._move(logs, before, after, is_trial=is_trial)
        finally:
            await logs.stop()

    def _arrange(
        self, topology: Topology, stage: StageConfig, lanes: Sequence[tuple[str, int, int]]
    ) -> Arrangement:
        partitions = {topic: self.topics.get(topic, 0) for topic in topics_of(topology, stage)}
        return arrange(topology, stage, partitions, self.masters, lanes)

    async def _refuse_members(self) -> None:
        """Raise NotMoved if a worker is a member of a group of the application."""
        groups = [
            stage_topics.group_of(topology, stage)
            for topology, stages in ((self.former, self.was), (self.topology, self.now))
            for stage in stages
        ]
        members = await asyncio.to_thread(_members, self.brokers, groups)
        if members:
            raise NotMoved(
                f"workers are members of {', '.join(members)}; stop all of them first (one with a"
                " name leaves when its --session is over)"
            )

    async def _move(
        self,
        logs: LogReader,
        before: Sequence[Arrangement],
        after: Sequence[Arrangement],
        *,
        is_trial: bool,
    ) -> Move:
        changes: dict[Target, dict[bytes, bytes | None]] = {}
        tasks: list[FormerTask] = []
        left: list[str] = []
        for arrangement in before:
            states = await self._read_states(logs, arrangement.stage)
            changes |= {where: dict.fromkeys(entries) for where, entries in states.items()}
            for source in arrangement.tasks:
                read: dict[TopicPartition, int] = {}
                if entries := states.get(TopicPartition(*arrangement.changelog(source)), {}):
                    tasks.append(task := await _restore(logs, arrangement, source, entries))
                    left += task.waiting()
                    read = task.state.offsets()
                for lane in arrangement.group_of(source).lanes:
                    if await _has_unread(logs, arrangement, lane, read.get(lane, 0)):
                        left.append(f"{lane.topic}/{lane.partition} has unread records")
        if left:
            more = f", and {len(left) - SHOWN} more" if len(left) > SHOWN else ""
            raise NotMoved(
                f"the application is not drained: {', '.join(left[:SHOWN])}{more}; {DRAIN}"
            )
        inputs = sorted({topic for each in after for topic in each.inputs})
        ids = await asyncio.to_thread(self.brokers.topic_ids, inputs)
        offsets: dict[str, dict[TopicPartition, int]] = {}
        count = 0
        for arrangement in after:
            ends = {s: (await logs.bounds(s))[1] for s in _iter_derived(arrangement)}
            found = await asyncio.to_thread(moved_states, arrangement, tasks, ends, ids)
            for source, moved in found.items():
                where = TopicPartition(*arrangement.changelog(source))
                there = await changelog.read_changelog(logs, where, None)
                rests = dict.fromkeys(there.entries())
                changes.setdefault(where, {}).update({**rests, **moved.entries})
                offsets.setdefault(arrangement.group, {}).update(moved.offsets)
                count += len(moved.entries)
        if not is_trial:
            timeout_ms = self.topology.transaction_timeout_ns // 1_000_000
            client, name = self.brokers.client, _transaction_name(before)

            async def before_end() -> None:
                await self._refuse_members()
                await fence(client, _ids_of(before))  # A worker may have begun and ended meanwhile.

            await commit_together(client, name, timeout_ms, changes, offsets, before_end)
        was, now = ([stage.name for stage in stages] for stages in (self.was, self.now))
        return Move(was, now, offsets, count)

    async def _read_states(
        self, logs: LogReader, stage: StageConfig
    ) -> dict[TopicPartition, dict[bytes, bytes]]:
        """Return the entries of all states of a stage, also for inputs that it has left."""
        found = {}
        begin = f"{self.topology.application}.{stage.name.replace('+', '-')}."
        for topic in (t for t in self.topics if t.startswith(begin) and t.endswith(SUFFIX)):
            for number in range(self.topics[topic]):
                where = TopicPartition(topic, number)
                read = await changelog.read_changelog(logs, where, None)
                entries = read.entries()
                claim = changelog.claim_of(entries)
                if claim is not None and changelog.contract_of(claim).stage == stage.name:
                    found[where] = entries
        return found


def _ids_of(arrangements: Iterable[Arrangement]) -> list[str]:
    """Return the transactional ids of the tasks."""
    return [transactional_id(each.group, source) for each in arrangements for source in each.tasks]


def _transaction_name(before: Sequence[Arrangement]) -> str:
    """Return the transactional id of a move, which is one for all moves of the former stages."""
    return f"{before[0].group}.recut"


async def _restore(
    logs: LogReader, arrangement: Arrangement, source: TopicPartition, entries: dict[bytes, bytes]
) -> FormerTask:
    """Return a task of the former layout, restored from the entries of its state."""
    tally = StateTally()
    tally.change({k: v for k, v in entries.items() if k != changelog.PROGRESS})
    whose = f"{source.topic}/{source.partition}"
    if not is_whole(entries, tally):
        raise NotMoved(
            f"a part of the state of {whose} in {arrangement.changelog(source)[0]} was lost; start"
            " a worker with the former `stages`, which names the remedy"
        )
    metrics = Metrics(CollectorRegistry(), arrangement.stage.name)
    services = Services(logs, metrics, _refuse_use, _refuse_use)
    state = PartitionState(source, arrangement, services)
    state.resume(changelog.read_progress(entries[changelog.PROGRESS], whose, ""), None)
    await Rebuilding(services, arrangement, state).rebuild(entries)
    return FormerTask(state, entries)


def _refuse_use(*_: Any) -> NoReturn:
    raise AssertionError("a state that is moved is not written by its tasks")


def _iter_derived(arrangement: Arrangement) -> Iterator[TopicPartition]:
    """Yield the partitions between stages that the stage reads."""
    return iter(()) if arrangement.is_first else iter(arrangement.tasks)


def _members(brokers: Brokers, groups: Iterable[str]) -> list[str]:
    """Return those of the groups that have members. Blocks."""
    admin = admin_client(brokers.servers, brokers.security)
    found = []
    asked = admin.describe_consumer_groups([*groups], request_timeout=TIMEOUT_S)
    for group, answer in asked.items():
        try:
            if answer.result().members:
                found.append(group)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                raise NotMoved(
                    f"the brokers do not describe the group {group}: {error.args[0].str()}"
                ) from error
    return sorted(found)


async def _has_unread(
    logs: LogReader, arrangement: Arrangement, place: TopicPartition, at: int
) -> bool:
    """Return whether the partition has records from an offset on, apart from reports of time."""
    if arrangement.is_first:
        return await logs.first_of(place, at) is not None
    first, end = await logs.bounds(place)
    inlet = arrangement.inlet(place)
    async with aclosing(logs.read_range(place, max(first, at), end)) as pieces:
        async for records, _ in pieces:
            events = inlet.read_again(records)
            tells_time = all(event.kind in (PROGRESS, WATERMARK) for event in events)
            if len(events) < len(records) or not tells_time:
                return True
    return False
