"""Examples: changes of a stage's topics, and the faults and log lines about them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from agents.kafka.brokers import Brokers as ClusterAddress
from agents.kafka.security import read_security
from agents.stage import topic_watch
from agents.stage.topic_watch import Look, NoAnswer, TopicState, TopicWatch, make_look
from agents.state.changelog import StateRefused
from tests.certificates import certificates
from topology.config import parse

QUARTER_OF_A_MINUTE_S = 15.0


def stage_of(
    partitions: Mapping[str, int], inputs: Sequence[str], changelogs: Sequence[str]
) -> Any:
    """Return a stand-in for an arrangement."""
    return SimpleNamespace(
        partitions=partitions,
        inputs=inputs,
        needs_whole=set(inputs),
        changelogs=changelogs,
        topology=parse("streams: {default: {}}"),
    )


KNOWN = stage_of({"raw": 2, "changelog": 2, "ordered": 3}, ["raw"], ["changelog"])
IDS = {"changelog": "at the start"}
SOUND: Mapping[str, TopicState] = {
    "raw": TopicState(2),
    "changelog": TopicState(2),
    "ordered": TopicState(3),
}
GONE = "the topic ordered was deleted, and no checkpoint can be committed without it"


class Brokers:
    """Fake brokers that give one answer per look, repeat the last, and record the topics."""

    def __init__(self, *answers: Mapping[str, TopicState] | NoAnswer) -> None:
        self._answers = list(answers)
        self.topics: list[Collection[str]] = []

    def __call__(self, topics: Collection[str]) -> Mapping[str, TopicState]:
        self.topics.append(topics)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, NoAnswer):
            raise answer
        return {topic: answer[topic] for topic in topics if topic in answer}


def faults(brokers: Brokers, looks: int, is_well: bool = True) -> tuple[str, ...]:
    """Return the faults after this many looks."""

    async def scenario() -> tuple[str, ...]:
        watch = TopicWatch(KNOWN, IDS, brokers, lambda: is_well)
        for _ in range(looks):
            await watch.check_topics()
        return watch.faults

    return asyncio.run(scenario())


def after(looks: int, *answers: Mapping[str, TopicState] | NoAnswer) -> tuple[str, ...]:
    """Return the faults after this many looks at brokers with these answers."""
    return faults(Brokers(*answers), looks)


CHANGED = {
    "gone": ({"ordered": TopicState(0)}, GONE),
    "changelog gone": ({"changelog": TopicState(0)}, "the topic changelog was deleted"),
    "grown": (
        {"raw": TopicState(4)},
        (
            "raw has 4 partitions, 2 when this stage started, and no worker reads the new ones; run"
            " `inorder topics create --grow`, then restart all workers"
        ),
    ),
    "without leaders": (
        {"ordered": TopicState(3, leaderless=(0, 2))},
        "ordered: partition 0, 2 has no leader; are all brokers up?",
    ),
    "refused": ({"raw": TopicState(0, refused="not authorized")}, "raw: not authorized"),
    "made anew and smaller": (
        {"ordered": TopicState(1)},
        "ordered has 1 partitions, 3 when this stage started: it was recreated; give it 3",
    ),
    "a changelog that grew": ({"changelog": TopicState(4)}, ""),
    "what is written grew": ({"ordered": TopicState(6)}, ""),
}


@pytest.mark.parametrize(("changed", "says"), CHANGED.values(), ids=CHANGED)
def test_fault_needs_two_looks(changed: dict[str, TopicState], says: str) -> None:
    now = {**SOUND, **changed}
    assert after(3, SOUND, now, SOUND) == ()
    assert after(2, SOUND, now) == ()
    found = after(3, SOUND, now)
    assert len(found) == bool(says)
    assert says in "".join(found)
    assert after(4, SOUND, now, now, SOUND) == ()


def test_silent_brokers_keep_faults() -> None:
    silence = NoAnswer("no broker answers")
    assert after(1, silence) == ()
    assert after(2, silence) == ("no broker answers",)
    without = {**SOUND, "ordered": TopicState(0)}
    (gone, silent) = after(4, without, without, silence)
    assert gone.startswith(GONE)
    assert silent == "no broker answers"
    assert after(3, silence, silence, SOUND) == ()


def described(*replicas: tuple[int, str | None]) -> Any:
    """Return the answer to a request for `raw`, whose replicas are on these brokers."""
    nodes = [SimpleNamespace(id=number, host=host, port=9) for number, host in replicas]
    parts = [SimpleNamespace(id=n, leader=nodes[0], replicas=nodes) for n in range(2)]
    return SimpleNamespace(result=lambda: SimpleNamespace(partitions=parts, topic_id="id"))


def listed(*brokers: int, replicas: Sequence[int], leader: int) -> Any:
    """Return the metadata of a cluster of these brokers with the topic `raw`."""
    parts = {n: SimpleNamespace(leader=leader, replicas=replicas) for n in range(2)}
    return SimpleNamespace(
        brokers={n: SimpleNamespace(id=n, host=f"host{n}", port=9) for n in brokers},
        topics={"raw": SimpleNamespace(partitions=parts)},
    )


class Admin:
    """A client whose controller and brokers answer in turn; None for no answer."""

    def __init__(self, controller: Sequence[Any], brokers: Sequence[Any] = ()) -> None:
        self._controller, self._brokers = iter(controller), iter(brokers)

    def describe_topics(self, topics: Any, request_timeout: float) -> dict[str, Any]:
        answer = next(self._controller)
        return {"raw": SimpleNamespace(result=self.no_answer) if answer is None else answer}

    def list_topics(self, timeout: float) -> Any:
        return next(self._brokers) or self.no_answer()

    @staticmethod
    def no_answer() -> Any:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "waiting for controller"))


def look_of(monkeypatch: pytest.MonkeyPatch, admin: Admin) -> Look:
    monkeypatch.setattr(topic_watch, "admin_client", lambda *_: admin)
    return make_look(ClusterAddress("here:9", is_embedded=False))


def test_silent_controller_is_avoided(monkeypatch: pytest.MonkeyPatch) -> None:
    well, ill = listed(1, 3, replicas=[1, 3], leader=1), listed(1, replicas=[3], leader=-1)
    look = look_of(monkeypatch, Admin([None, None], [well, None, None, ill]))
    assert look(["gone", "raw"]) == {"raw": TopicState(2)}
    assert look(["raw"]) == {"raw": TopicState(2, leaderless=(0, 1), away=("3 (host3:9)",))}


def test_no_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    look = look_of(monkeypatch, Admin([None], [None] * topic_watch.ANY_TRIES))
    with pytest.raises(NoAnswer, match="no broker answers at here:9: waiting for controller"):
        look(["raw"])


def test_changed_pem_files_renew_client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A client itself reads the files only at its start."""
    silent = [None] * topic_watch.ANY_TRIES
    admins = [Admin([None, None], 2 * silent), Admin([described((1, "a"))])]
    monkeypatch.setattr(topic_watch, "admin_client", lambda *_: admins.pop(0))
    certificates(tmp_path)
    tls = read_security(f"security.protocol=SSL\nssl.ca.location={tmp_path}/ca.crt\n", {})
    look = make_look(ClusterAddress("here:9", is_embedded=False, security=tls))
    for client_is_new in (False, True):
        if client_is_new:
            certificates(tmp_path)
        with pytest.raises(NoAnswer):
            look(["raw"])
        assert (not admins) == client_is_new
    assert look(["raw"]) == {"raw": TopicState(2, topic_id="id")}


def test_unknown_topic_keeps_fault() -> None:
    without = {**SOUND, "ordered": TopicState(0)}
    partial = {topic: SOUND[topic] for topic in ("raw", "changelog")}
    (gone,) = after(4, without, without, partial)
    assert gone.startswith(GONE)


def test_missing_broker_is_noted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    whole, without = described((1, "a"), (2, "b")), described((1, "a"), (2, None))
    look = look_of(monkeypatch, Admin([whole, without, without, whole]))
    notes = []

    async def scenario() -> None:
        known = stage_of({"raw": 2}, ["raw"], [])
        watch = TopicWatch(known, {}, look)
        for _ in range(4):
            await watch.check_topics()
            assert watch.faults == ()
            notes.append(watch.notes)

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    away = ("broker 2 (b:9) is away, so topics have fewer replicas; start it again",)
    assert notes == [(), away, away, ()]
    assert caplog.messages == [
        "broker 2 (b:9) is away; work goes on at the others",
        "broker 2 (b:9) is back",
    ]


def test_fault_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    gone = {**SOUND, "ordered": TopicState(0)}
    with caplog.at_level(logging.WARNING):
        after(6, gone, gone, gone, gone, SOUND)
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert caplog.messages[0].startswith(GONE)
    assert caplog.messages[1] == "ordered is in order again"


ONE, TWO = ({**SOUND, "ordered": TopicState(3, topic_id=each)} for each in ("one", "two"))


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ([{**SOUND, "ordered": TopicState(6)}], "has 6 partitions, 3 when this stage started"),
        ([ONE, ONE, SOUND, TWO], "was deleted and recreated"),
    ],
)
def test_output_change_is_logged_once(
    answers: list[Mapping[str, TopicState]], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert after(7, *answers) == ()
    (told,) = caplog.messages
    assert told.startswith(f"ordered {says}")


@pytest.mark.parametrize(
    ("topic", "says"),
    [
        ("changelog", "in it; restore the topic, or begin anew"),
        ("raw", "offsets of the stage's state do not apply to it; begin anew"),
    ],
)
def test_recreated_topic_ends_stage(topic: str, says: str) -> None:
    """A broker that has just returned can still report the former topic, so two looks count."""
    first, second = (
        {**SOUND, topic: TopicState(2, topic_id=each)} for each in ("at the start", "later")
    )
    assert after(3, first, first, first) == ()
    assert after(5, first, second, first, second, first) == ()
    with pytest.raises(StateRefused, match=f"{topic} was deleted and recreated .*{says}"):
        after(3, first, second, second)
    if topic == "changelog":  # A changelog can be recreated between the start and the first look.
        with pytest.raises(StateRefused):
            after(2, second)


def test_healthy_topics_take_turns() -> None:
    brokers = Brokers(SOUND)
    faults(brokers, topic_watch.FIRST_LOOKS + 6)
    first = brokers.topics[: topic_watch.FIRST_LOOKS]
    later = brokers.topics[topic_watch.FIRST_LOOKS :]
    assert all(topics == sorted(SOUND) for topics in first)
    turns = [["raw"], ["changelog", "ordered"]], [["changelog"], ["ordered", "raw"]]
    assert later in [turn * 3 for turn in turns]


def test_unhealthy_stage_checks_all() -> None:
    brokers = Brokers(SOUND)
    faults(brokers, topic_watch.FIRST_LOOKS + 6, is_well=False)
    assert all(topics == sorted(SOUND) for topics in brokers.topics)


@pytest.mark.parametrize(
    "change",
    [{topic: TopicState(0)} for topic in SOUND] + [{"ordered": TopicState(3, refused="no")}],
)
def test_fault_leads_to_full_checks(
    change: dict[str, TopicState],
) -> None:
    brokers = Brokers(*[SOUND] * topic_watch.FIRST_LOOKS, {**SOUND, **change})
    assert len(faults(brokers, topic_watch.FIRST_LOOKS + topic_watch.OTHERS_EVERY + 2)) == 1
    assert brokers.topics[-1] == sorted(SOUND)


@pytest.mark.parametrize("inputs", [1, 2, 4, 10])
def test_recreation_is_found_in_15_s(
    inputs: int,
) -> None:
    """Any number of inputs is covered, and so are changelogs."""
    raw = [f"raw{n}" for n in range(inputs)]
    changelogs = [f"changelog{n}" for n in range(inputs)]
    written = ["ordered", "gaps"]
    known = stage_of(dict.fromkeys([*raw, *changelogs, *written], 2), raw, changelogs)

    def looks_until_found(anew: str) -> int:
        now = dict.fromkeys(known.partitions, TopicState(2, topic_id="one"))

        async def scenario() -> int:
            watch = TopicWatch(known, {}, lambda topics: {topic: now[topic] for topic in topics})
            for _ in range(topic_watch.FIRST_LOOKS + 1):
                await watch.check_topics()
            now[anew] = TopicState(2, topic_id="two")
            for looks in range(1, 100):
                try:
                    await watch.check_topics()
                except StateRefused:
                    return looks
            raise AssertionError("it was never found")

        return asyncio.run(scenario())

    worst = max(looks_until_found(topic) for topic in [*raw, *changelogs])
    assert worst * topic_watch.LOOK_S <= QUARTER_OF_A_MINUTE_S
