"""Examples: how a static member reacts to its group's answers."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import GroupAuthorizationFailedError, NodeNotReadyError
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest
from faust.transport.drivers import aiokafka as driver

from agents.kafka import fetching, membership
from agents.kafka.membership import Meant

SESSION_S = 6.0
BEAT = HeartbeatRequest("group", 1, "member")
JOIN = JoinGroupRequest("group", 6_000, 30_000, "", "one-merge", "consumer", [])
LEAVE = LeaveGroupRequest("group", "member")


class Group:
    """A client's side of a group whose answers and clock the test controls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = self.wall_s = 100.0
        self.answers: list[int] = []
        self.answer_takes_s = 0.0
        self.failures: list[Exception] = []
        self.said: list[Any] = []
        self.connection = SimpleNamespace(close=lambda *, exc: self.said.append(exc))
        self.connections = {(7, membership.COORDINATION): self.connection}
        self.is_reached = True
        client = SimpleNamespace(_conns=self.connections, send=self._sent, ready=self._ready)
        coordinator = SimpleNamespace(
            _group_instance_id="one-merge",
            group_id="group",
            member_id="member",
            generation=3,
            coordinator_id=7,
            reset_generation=lambda: self.said.append("reset"),
            _client=client,
            _send_req=self._answer,
            _push_error_to_user=None,
            _closing=None,
        )
        consumer: Any = SimpleNamespace(_coordinator=coordinator)
        clock = SimpleNamespace(monotonic=lambda: self.now_s, time=lambda: self.wall_s)
        monkeypatch.setattr(membership, "time", clock)
        self.coordinator = coordinator
        self.membership = membership.Membership(consumer, SESSION_S, self.failures.append)

    async def _answer(self, _: Any) -> Any:
        self.passes(self.answer_takes_s)
        return SimpleNamespace(error_code=self.answers.pop(0))

    async def _ready(self, node: int, *, group: Any) -> bool:
        await asyncio.sleep(0)
        if self.is_reached:
            self.connections.setdefault((node, group), self.connection)
        return self.is_reached

    async def _sent(self, node: int, request: Any, *, group: Any) -> None:
        assert (node, group) == (7, membership.COORDINATION)
        if not self.is_reached:
            raise NodeNotReadyError
        self.said.append(request)

    def passes(self, seconds: float) -> None:
        self.now_s += seconds
        self.wall_s += seconds

    def says(self, code: int, request: Any = BEAT) -> bool:
        """Answer the request with this code, and return whether the client sees the answer."""
        self.answers.append(code)
        try:
            asyncio.run(self.coordinator._send_req(request))
        except Meant:
            return False
        return True


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Group:
    return Group(monkeypatch)


def test_member_forgotten_early_fails(group: Group) -> None:
    """A member that the group forgets before its session ends was replaced by another worker."""
    assert group.says(membership.OK, JOIN)
    group.passes(1.0)
    assert group.says(membership.REBALANCE_IN_PROGRESS)
    group.passes(5.0)
    assert not group.says(membership.UNKNOWN_MEMBER_ID)
    (fenced,) = group.failures
    assert "two workers have the same name" in str(fenced)
    assert "joined the consumer group group as one-merge" in str(fenced)


@pytest.mark.parametrize(
    ("answer_takes_s", "passes_s", "slept_s"),
    [(0.0, SESSION_S, 0.0), (SESSION_S, 1.0, 0.0), (0.0, 1.0, 3_600.0)],
    ids=["silent for a session", "paused before it saw an answer", "on a machine that slept"],
)
def test_silent_member_can_rejoin(
    group: Group, answer_takes_s: float, passes_s: float, slept_s: float
) -> None:
    assert group.says(membership.UNKNOWN_MEMBER_ID, JOIN), "it never had a place"
    group.answer_takes_s = answer_takes_s
    group.says(membership.OK)
    group.answer_takes_s = 0.0
    group.passes(passes_s)
    group.wall_s += slept_s  # The monotonic clock stands still while the machine sleeps.
    assert group.says(membership.UNKNOWN_MEMBER_ID)
    assert group.says(membership.UNKNOWN_MEMBER_ID, JOIN)
    assert group.failures == []


def test_fenced_member_fails(group: Group) -> None:
    assert not group.says(membership.FENCED_INSTANCE_ID, JOIN)
    assert len(group.failures) == 1


def test_leaving_keeps_static_name(group: Group) -> None:
    assert group.says(membership.UNKNOWN_MEMBER_ID, LEAVE)
    asyncio.run(group.membership.leave())
    assert group.coordinator._group_instance_id == "one-merge", "so that the client does not leave"


async def leave_during(group: Group, request: Any) -> None:
    """Leave while the request has no answer yet."""

    async def never(_: Any) -> None:
        await asyncio.Event().wait()

    group.membership._send = never
    joining = asyncio.create_task(group.coordinator._send_req(request))
    await asyncio.sleep(0)
    await group.membership.leave()
    joining.cancel()
    await asyncio.wait([joining])


@pytest.mark.parametrize("connects_anew", [False, True])
def test_leave_cancels_pending_join(group: Group, connects_anew: bool) -> None:
    """Leaving uses a new connection, as the request to join can still be queued on the old one."""
    if connects_anew:
        group.connections.clear()
    asyncio.run(leave_during(group, JOIN))
    closed, left, reset = group.said
    assert isinstance(closed, Meant)
    assert isinstance(left, LeaveGroupRequest)
    assert (left._group, left._member_id, reset) == ("group", "member", "reset")
    with pytest.raises(Meant):
        asyncio.run(group.coordinator._send_req(JOIN))


def test_failed_leave_is_logged(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    group.connections.clear()
    group.is_reached = False
    asyncio.run(leave_during(group, JOIN))
    assert group.said == ["reset"]
    (told,) = caplog.messages
    assert told.startswith("the group group may not know that this worker has left")


def test_failed_leave_stops_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped: list[fetching.ConsumerThread] = []

    async def leave() -> None:
        raise RuntimeError("not to be left")

    async def stop(thread: fetching.ConsumerThread) -> None:
        stopped.append(thread)

    monkeypatch.setattr(driver.AIOKafkaConsumerThread, "on_thread_stop", stop)
    thread: Any = object.__new__(fetching.ConsumerThread)
    thread._membership = SimpleNamespace(leave=leave)
    with pytest.raises(RuntimeError, match="not to be left"):
        asyncio.run(thread.on_thread_stop())
    assert stopped == [thread]


def test_leave_lets_first_join_complete(group: Group) -> None:
    group.coordinator.generation = -1
    asyncio.run(leave_during(group, JOIN))
    assert group.said == []


def test_leave_prevents_later_joins(group: Group) -> None:
    asyncio.run(leave_during(group, BEAT))
    assert group.said == [], "the stop that follows leaves"
    with pytest.raises(Meant):
        asyncio.run(group.coordinator._send_req(JOIN))


def test_replaced_member_logs_nothing() -> None:
    def said(error: Exception) -> logging.LogRecord:
        text = "Heartbeat send request failed: %s. Will retry."
        return logging.LogRecord("client", logging.ERROR, "", 0, text, (error,), None)

    assert not membership.is_news(said(Meant("one-merge")))
    closed = ConnectionError()
    closed.__cause__ = Meant()
    assert not membership.is_news(said(closed))
    assert membership.is_news(said(TimeoutError()))


def test_group_error_needs_no_poll(group: Group) -> None:
    """Before the first assignment nothing polls, and the client would keep the error for a poll."""
    refused = GroupAuthorizationFailedError("group")

    async def push() -> bool:
        closing = group.coordinator._closing = asyncio.get_running_loop().create_future()
        pushed = asyncio.create_task(group.coordinator._push_error_to_user(refused))
        while not group.failures:
            await asyncio.sleep(0)
        goes_on = pushed.done()
        closing.set_result(None)
        await pushed
        return goes_on

    assert not asyncio.run(push())
    assert group.failures == [refused]
