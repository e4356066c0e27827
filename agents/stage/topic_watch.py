"""Watches whether the topics of a stage are still the same as at its start.

Every `LOOK_S` the brokers are asked, in one request, about topics that the stage reads or writes.
The request names all topics in the first `FIRST_LOOKS` checks, and whenever a topic or the stage
has a fault. Otherwise it names some in turn, because each described topic costs the client memory
that it never returns (120 bytes in confluent-kafka 2.16).

Each input and changelog is checked at least once in `TURN` checks, however many there are. One of
the other topics is checked in every `OTHERS_EVERY`th check. So a recreated input is found in at
most `TURN` checks and confirmed in the next, within a quarter of a minute. With six other topics,
each is described every 30 s. An input and its changelog cost the client 4 MB a day, and ten of each
cost 21 MB.

The findings differ in severity:

* **deleted, or a partition without a leader**: no checkpoint can be committed, so the worker is not
  ready;
* **fewer partitions than at the start**: the same, because the topic has been recreated;
* **an input has more partitions**: no worker reads the new ones, so the worker is not ready. The
  old partitions continue. After `inorder topics create --grow` a restart reads all of them;
* **no broker answers**: not ready. The client describes topics at one broker, the controller that
  it knows. If that one is silent, any other broker is asked (`ANY_TRIES` times);
* **some brokers are away**, and others answer: work goes on, so this is a note and a warning;
* **an output has more partitions, or was recreated**: until a restart nothing changes, so this is
  only logged;
* **a changelog or an input was recreated**: the state is no longer in the changelog, or its offsets
  mean nothing in the input. No further work could be used at the next start, so the worker ends
  with StateRefused.

A fault counts when two consecutive checks have seen it, because a broker that has just restarted
may not know its topics yet. Each fault is logged once, and so is its end. A changelog may have more
partitions: it is then ready for a restart. The embedded broker creates any topic that it is asked
about, so it is not asked.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import ceil
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from agents.kafka.brokers import Brokers, admin_client, format_topic_id
from agents.kafka.refused_rights import describe_refusal
from agents.kafka.renewed_context import read_file_states
from agents.kafka.rights import DESCRIBE, Kind
from agents.stage.arrangement import Arrangement
from agents.state.changelog import StateRefused
from topology.config.change import lost_state_remedy, new_start_remedy

log = logging.getLogger(__name__)

LOOK_S: Final = 2.5
FIRST_LOOKS: Final = 24
"""The first checks, for one minute, cover all topics, so an initial fault is reported at once."""

TURN: Final = 4
OTHERS_EVERY: Final = 2
ASK_TIMEOUT_S: Final = 3.0
ANY_TRIES: Final = 3
"""Number of requests to any broker before none is said to answer.

The client chooses a connected broker at random, which may be a paused one that it takes for well.
"""

ANY_TIMEOUT_S: Final = 1.0
BROKERS: Final = ""
"""The key, instead of a topic, of the fault that no broker answers."""

UNANSWERED: Final = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)


class TopicState(NamedTuple):
    """A topic as the brokers describe it; a deleted one has no partitions."""

    partitions: int
    leaderless: tuple[int, ...] = ()
    refused: str = ""
    """The reason why the brokers do not describe the topic."""

    topic_id: str = ""
    """The topic's id, which changes if it is recreated; "" if brokers give none."""

    away: tuple[str, ...] = ()
    """The brokers that have a replica and are not in the cluster now, by id and address."""


class NoAnswer(Exception):
    """No broker answered."""


Look = Callable[[Collection[str]], Mapping[str, TopicState]]
"""A function that asks the brokers about topics; it blocks briefly, and may raise NoAnswer.

The answer lacks topics about which nothing is known now.
"""


@dataclass(eq=False)
class TopicWatch:
    """A watch over the topics of a stage.

    Attributes:
        ids: The topics' ids at the start, if the brokers give them.
        is_well: Function that returns whether the stage sees no fault in its own work.
    """

    arrangement: Arrangement
    ids: Mapping[str, str]
    ask: Look
    is_well: Callable[[], bool] = lambda: True

    def __post_init__(self) -> None:
        self._all = sorted(self.arrangement.partitions)
        self._read, self._changelogs = self.arrangement.needs_whole, self.arrangement.changelogs
        needed = {*self._read, *self._changelogs}
        self._needed = deque(topic for topic in self._all if topic in needed)
        self._others = deque(topic for topic in self._all if topic not in needed)
        self._looks = 0
        self._suspected: dict[str, str] = {}
        self._faults: dict[str, str] = {}
        self._grown: set[str] = set()
        self._ids = dict(self.ids)
        self._anew: dict[str, str] = {}
        self._away: dict[str, tuple[str, ...]] = {}

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults of topics that make the stage not ready."""
        return tuple(self._faults.values())

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence on each broker that is away while others do its work."""
        return tuple(
            f"broker {broker} is away, so topics have fewer replicas; start it again"
            for broker in self._brokers_away()
        )

    def _brokers_away(self) -> list[str]:
        return sorted({broker for brokers in self._away.values() for broker in brokers})

    async def run(self) -> None:
        while True:
            await self.check_topics()
            await asyncio.sleep(LOOK_S)

    async def check_topics(self) -> None:
        """Check some topics; raise StateRefused if a changelog or an input was recreated."""
        topics = self._choose_topics()
        try:
            seen = await asyncio.to_thread(self.ask, topics)
        except NoAnswer as failed:
            found = self._suspected | {BROKERS: str(failed)}
        else:
            faults = {topic: self._find_fault(topic, state) for topic, state in seen.items()}
            unseen = {t: fault for t, fault in self._suspected.items() if t and t not in seen}
            found = unseen | {topic: fault for topic, fault in faults.items() if fault}
            self._note_away(seen)
            for topic, state in seen.items():
                self._log_growth(topic, state)
                self._check_recreated(topic, state.topic_id)
        faults = {topic: fault for topic, fault in found.items() if topic in self._suspected}
        self._suspected = found
        for topic, fault in faults.items():
            if self._faults.get(topic) != fault:
                log.error("%s", fault)
        for topic in self._faults.keys() - faults.keys():
            over = f"{topic} is in order again" if topic else "brokers answer again"
            log.warning("%s", over)
        self._faults = faults

    def _choose_topics(self) -> Sequence[str]:
        """Return the topics to check now."""
        self._looks += 1
        amiss = self._suspected or self._faults or self._anew or not self.is_well()
        if amiss or self._looks <= FIRST_LOOKS:
            return self._all
        asked = _rotate(self._needed, ceil(len(self._needed) / TURN))
        if self._looks % OTHERS_EVERY == 0:
            asked += _rotate(self._others, 1)
        return sorted(asked)

    def _find_fault(self, topic: str, seen: TopicState) -> str:
        """Return a description of the fault that stops the stage; "" if there is none."""
        known = self.arrangement.partitions[topic]
        if seen.refused:
            return f"{topic}: {seen.refused}"
        if not seen.partitions:
            return (
                f"the topic {topic} was deleted, and no checkpoint can be committed"
                f" without it; create"
                " it again with `inorder topics create`"
            )
        if seen.leaderless:
            numbers = ", ".join(map(str, seen.leaderless))
            return f"{topic}: partition {numbers} has no leader; are all brokers up?"
        if seen.partitions < known:
            return (
                f"{topic} has {seen.partitions} partitions, {known} when this stage started: it was"
                f" recreated; give it {known} again"
            )
        if seen.partitions > known and topic in self._read:
            return (
                f"{topic} has {seen.partitions} partitions, {known} when this stage started, and"
                " no worker reads the new ones; run `inorder topics create --grow`, then restart"
                " all workers"
            )
        return ""

    def _note_away(self, seen: Mapping[str, TopicState]) -> None:
        before = {*self._brokers_away()}
        self._away |= {topic: state.away for topic, state in seen.items()}
        now = {*self._brokers_away()}
        for broker in sorted(now - before):
            log.warning("broker %s is away; work goes on at the others", broker)
        for broker in sorted(before - now):
            log.warning("broker %s is back", broker)

    def _log_growth(self, topic: str, seen: TopicState) -> None:
        known = self.arrangement.partitions[topic]
        needed = {*self._read, *self._changelogs, *self._grown}
        if seen.partitions > known and topic not in needed:
            self._grown.add(topic)
            log.warning(
                "%s has %d partitions, %d when this stage started; it is written as before, but a"
                " restart may be refused, because streams would move to other partitions",
                *(topic, seen.partitions, known),
            )

    def _check_recreated(self, topic: str, topic_id: str) -> None:
        if not topic_id or self._ids.setdefault(topic, topic_id) == topic_id:
            self._anew.pop(topic, None)
            return
        if self._anew.get(topic) != topic_id:
            self._anew[topic] = topic_id  # The next check will confirm it.
            return
        self._ids[topic] = topic_id
        what = f"{topic} was deleted and recreated while this stage was running"
        topology = self.arrangement.topology
        if topic in self._changelogs:
            raise StateRefused(
                f"{what}: the stage's state is no longer in it; {lost_state_remedy(topology)}"
            )
        if topic in self.arrangement.inputs:
            raise StateRefused(
                f"{what}: the offsets of the stage's state do not apply to it;"
                f" {new_start_remedy(topology)}"
            )
        log.error("%s: its records were deleted", what)


def _rotate(topics: deque[str], most: int) -> list[str]:
    """Return the first `most` topics, and move them to the end of the queue."""
    chosen = list(islice(topics, most))
    topics.rotate(-most)
    return chosen


def make_look(brokers: Brokers) -> Look:
    """Return a `Look` that asks these brokers with a separate client."""
    return _Looking(brokers)


class _Looking:
    """A `Look` that asks the controller, or any broker if the controller does not answer.

    The client learns the controller's id from metadata, and waits for that broker even if it has
    ended. The metadata of any broker names the present controller, so the next check can ask it.
    The client reads PEM files at its start only. So if no broker answers, and the files have
    changed, a new client replaces it.
    """

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._admin = self._new_client()
        self._addresses: dict[int, str] = {}
        """The last known address of each broker, by its id."""

    def __call__(self, topics: Collection[str]) -> Mapping[str, TopicState]:
        asked = self._admin.describe_topics(
            TopicCollection(list(topics)), request_timeout=ASK_TIMEOUT_S
        )
        try:
            return {topic: self._describe(topic, answer) for topic, answer in asked.items()}
        except KafkaException:
            return self._list(topics)

    def _describe(self, topic: str, answer: Any) -> TopicState:
        """Return the state from an answer; raise KafkaException if no answer came."""
        try:
            found = answer.result()
        except KafkaException as failed:
            error: KafkaError = failed.args[0]
            if error.code() in UNANSWERED:
                raise
            if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return TopicState(0)
            if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                return TopicState(0, refused=describe_refusal(DESCRIBE, f"{Kind.TOPIC} {topic}"))
            return TopicState(0, refused=error.str())
        nodes = {node.id: node for each in found.partitions for node in each.replicas}
        here = {node.id: f"{node.host}:{node.port}" for node in nodes.values() if node.host}
        return TopicState(
            len(found.partitions),
            tuple(each.id for each in found.partitions if each.leader is None),
            topic_id=format_topic_id(found.topic_id),
            away=self._away(nodes, here),
        )

    def _list(self, topics: Collection[str]) -> Mapping[str, TopicState]:
        """Return the topics' states from the metadata of any broker, which has no topic ids.

        It has the visible topics only, and requesting one by name could create it. So a topic that
        is absent there is left out.
        """
        cluster = self._read_metadata()
        here = {each.id: f"{each.host}:{each.port}" for each in cluster.brokers.values()}
        states = {}
        for topic in cluster.topics.keys() & topics:
            partitions = cluster.topics[topic].partitions
            replicas = {replica for each in partitions.values() for replica in each.replicas}
            states[topic] = TopicState(
                len(partitions),
                tuple(number for number, each in partitions.items() if each.leader < 0),
                away=self._away(replicas, here),
            )
        return states

    def _read_metadata(self) -> Any:
        """Return the cluster's metadata from any broker; raise NoAnswer after `ANY_TRIES`."""
        for _ in range(ANY_TRIES):
            try:
                return self._admin.list_topics(timeout=ANY_TIMEOUT_S)
            except KafkaException as failed:
                error: KafkaError = failed.args[0]
        if read_file_states(self._brokers.security.pem_files) != self._files:
            self._admin = self._new_client()
        raise NoAnswer(f"no broker answers at {self._brokers.servers}: {error.str()}")

    def _new_client(self) -> AdminClient:
        self._files = read_file_states(self._brokers.security.pem_files)
        return admin_client(self._brokers.servers, self._brokers.security)

    def _away(self, replicas: Iterable[int], here: Mapping[int, str]) -> tuple[str, ...]:
        self._addresses |= here
        absent = sorted({*replicas} - here.keys())
        return tuple(f"{each} ({self._addresses.get(each, 'address unknown')})" for each in absent)
