"""End to end: the supervisor over real child processes that stand in for stages.

There is no broker: a child announces its port and answers (tests.agents.process.fake_stage).
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from agents.kafka.fetching import MAX_POLL_INTERVAL_S
from agents.process import supervisor as supervising
from agents.process.child_process import Child, Process
from agents.process.memory import memory_limit
from agents.process.scrapes import AGE, BUILD, MEMORY, READY, STAGES, SUPERVISOR, Scrapes
from agents.process.stage_process import StageProcess
from agents.process.supervisor import Supervisor
from agents.watch.last_lines import LastLines
from agents.watch.port.http import HttpUnavailable
from agents.watch.port.token import make_bearer_headers
from cli.local.ports import free_ports
from tests.waiting import until

CHILD = str(Path(__file__).with_name("fake_stage.py"))
PATIENCE_S = 600.0
"""A limit that no passing run reaches."""
STUCK_AFTER_S = 3.0
"""Six looks without an answer; even on a busy machine a healthy child answers one of them."""

MUTE: dict[str, Any] = {"options": ("--mute",), "stuck_after_s": 0.5, "ready": False}
"""A child that never answers, so no answer can be late."""
AGES_S = 1.0
"""Age from which values count as old."""

TOKEN = "0123456789abcdef"
Ask = Callable[[str], Awaitable[tuple[int, Any]]]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervising, "ASK_TIMEOUT_S", 0.5)
    monkeypatch.setattr(supervising, "ASK_PAUSE_S", 0.05)
    # One look adds at most this much silence, however long it took.
    monkeypatch.setattr(supervising, "LONGEST_SILENCE_S", 0.5)


@asynccontextmanager
async def supervised(
    *stages: str,
    options: tuple[str, ...] = (),
    brokers_wait_s: float = 0.0,
    ends_with: int = 0,
    token: str | None = None,
    stuck_after_s: float = PATIENCE_S,
    ready: bool = True,
) -> AsyncIterator[Ask]:
    """Run a supervisor of children with these names, and yield a function that queries it.

    If `ready`, wait until the children are ready. At the end, stop the supervisor and check its
    exit code.
    """
    (port,) = free_ports(1)
    commands = {stage: [sys.executable, CHILD, *options] for stage in stages}
    supervisor = Supervisor(commands, "127.0.0.1", port, stuck_after_s, brokers_wait_s, token)
    running = asyncio.create_task(supervisor.run())
    headers = make_bearer_headers(token)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", headers=headers) as session:

        async def ask(path: str) -> tuple[int, Any]:
            assert not running.done(), "the supervisor has ended"
            try:
                async with session.get(path) as response:
                    is_json = response.content_type == "application/json"
                    return response.status, await (response.json() if is_json else response.text())
            except aiohttp.ClientConnectionError:
                return 0, None

        await until(lambda: answers(ask, "/live"))
        try:
            if ready:
                await until(lambda: answers(ask, "/ready"))
            yield ask
        finally:
            os.kill(os.getpid(), signal.SIGTERM)  # for the supervisor's handler
            await until(running.done)
            assert await running == ends_with


async def answers(ask: Ask, path: str) -> Any:
    """Return the body of the answer if the status is 200."""
    status, body = await ask(path)
    return body if status == 200 else None


async def faults(ask: Ask, path: str) -> Any:
    status, body = await ask(path)
    return body["reasons"] if status == 503 else None


async def pids(ask: Ask, count: int = 1) -> list[int]:
    """Wait until `count` stages answer, and return their process ids."""

    async def all_pids() -> list[int] | None:
        told = [part["pid"] for part in await answers(ask, "/explain") or []]
        return told if len(told) == count else None

    found: list[int] = await until(all_pids)
    return found


async def test_hanging_child_is_restarted() -> None:
    async with supervised("reorder", "merge", stuck_after_s=STUCK_AFTER_S) as ask:
        first = await pids(ask, 2)
        assert len(set(first)) == 2
        about = {"reorder": {"codec": "native"}, "merge": {"codec": "native"}}

        async def is_told() -> bool:
            return bool((await answers(ask, "/health"))["stages"] == about)

        await until(is_told)
        os.kill(first[0], signal.SIGSTOP)
        (reason,) = await until(lambda: faults(ask, "/live"))
        assert reason.startswith("reorder: does not answer for ")
        await until(lambda: answers(ask, "/live"))
        await until(lambda: answers(ask, "/ready"))
        second = await pids(ask, 2)
        assert second[0] not in first
        assert second[1] == first[1]  # The other child was left alone.
        assert not Path(f"/proc/{first[0]}").exists()


def test_silent_stage_is_not_ready() -> None:
    well = {"ok": True, "reasons": []}
    children = [Child("reorder", []), Child("merge", [], health={"live": well, "ready": well})]
    (ready,) = [family for family in Scrapes(children, ()).collect() if family.name == READY]
    told = {each.labels["stage"]: each.value for each in ready.samples}
    assert told == {"reorder": 0, "merge": 1}


async def test_silent_stage_keeps_metrics() -> None:
    async with supervised("reorder", "merge") as ask:
        (first, _) = await pids(ask, 2)

        async def told() -> dict[str, float]:
            families = text_string_to_metric_families(await answers(ask, "/metrics"))
            samples = [sample for family in families for sample in family.samples]
            ages = {s.labels["stage"]: s.value for s in samples if s.name == AGE}
            stages = {s.labels["stage"] for s in samples if s.name == STAGES}
            assert stages == {"reorder", "merge"}
            assert sum(s.value for s in samples if s.name == "fake_total") == len(ages)
            return ages

        async def are_fresh() -> bool:
            ages = (await told()).values()
            return len(ages) == 2 and max(ages) < AGES_S

        async def is_old() -> bool:
            ages = await told()
            return ages["reorder"] >= AGES_S > ages["merge"]

        await until(are_fresh)
        os.kill(first, signal.SIGSTOP)
        await until(is_old)
        os.kill(first, signal.SIGCONT)
        await until(are_fresh)


def test_metrics_end_with_the_process() -> None:
    child = Child("reorder", [], metrics="fake_total 1.0\n")
    taken = Scrapes([child], ["reorder"])
    assert taken.texts() == ["fake_total 1.0\n"]
    child.metrics = None
    assert taken.texts() == []
    own = {family.name for family in taken.collect() if family.name.startswith("inorder_")}
    assert own == {AGE, READY, STAGES, BUILD, MEMORY}


def test_memory_is_shown_without_answers() -> None:
    pids = {"reorder": os.getpid(), "merge": 2**22}  # above the largest process id
    with Path(os.devnull).open("rb", 0) as pipe:
        children = [Child(name, [], process=Process(pid, pipe)) for name, pid in pids.items()]
    families = {family.name: family for family in Scrapes(children, ["reorder"]).collect()}
    samples = families["process_resident_memory_bytes"].samples
    assert [each.labels for each in samples] == [{"stage": SUPERVISOR}, {"stage": "reorder"}]
    assert all(each.value > 1 << 20 for each in samples)
    (info,) = families[BUILD].samples
    assert (1 << 20) < families[MEMORY].samples[0].value <= memory_limit()
    assert set(info.labels) == {"version", "core", "codec", "python"}


async def test_healthy_child_is_polled_rarely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervising, "CALM_PAUSE_S", 30.0)

    calm = Supervisor({}, "127.0.0.1", 0, stuck_after_s=60.0)
    assert calm._pause_s() == supervising.ASK_PAUSE_S
    calm._asked_s -= 2 * supervising.LATELY_S
    assert calm._pause_s() == 30.0
    calm._answer("ready")
    assert calm._pause_s() == supervising.ASK_PAUSE_S
    trouble = Supervisor({"reorder": ["false"]}, "127.0.0.1", 0, stuck_after_s=60.0)
    trouble._asked_s -= 2 * supervising.LATELY_S
    assert trouble._pause_s() == supervising.ASK_PAUSE_S


def test_log_outlives_its_stage() -> None:
    lines = LastLines()
    first, second = ({"at_ns": n, "level": "error", "text": str(n)} for n in (1, 2))
    lines.add([first])
    lines.add([first, second])
    lines.add([])  # a new process
    assert lines.plain() == [first, second]
    with lines.listen():
        logging.getLogger("inorder.any").warning("%d of %d", 1, 2)
    logging.getLogger("inorder.any").warning("not any more")
    assert [(each["level"], each["text"]) for each in lines.plain()[2:]] == [("warning", "1 of 2")]


async def test_portless_child_is_restarted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervising, "START_TIMEOUT_S", 1.0)

    async with supervised("reorder", **MUTE) as ask:
        (reason,) = await until(lambda: faults(ask, "/live"))
        assert reason.startswith("reorder: has not announced its port for ")
        await until(lambda: asyncio.sleep(0, caplog.text.count("exit -9") >= 2))
    assert "memory ran out" not in caplog.text  # the supervisor killed it


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV])
async def test_killed_child_hints_at_memory(
    number: signal.Signals, caplog: pytest.LogCaptureFixture
) -> None:
    async with supervised("reorder") as ask:
        (first,) = await pids(ask)
        os.kill(first, number)
        await until(lambda: asyncio.sleep(0, f"exit -{number:d}" in caplog.text))
    (said,) = [line for line in caplog.messages if line.startswith("stage reorder: exit")]
    if number == signal.SIGSEGV:
        assert said == f"stage reorder: exit -{number:d}"
    else:
        assert re.search(r"memory ran out: it used [1-9]\d* MiB, and .* may use [\d,]+ MiB", said)
        assert "raise the memory limit, or lower max_held_bytes" in said


async def test_printing_child_can_restart(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A child prints more than a pipe holds, including lines like an address."""

    async with supervised("reorder", options=("--prints",)) as ask:
        (first,) = await pids(ask)
        os.kill(first, signal.SIGKILL)
        await until(lambda: faults(ask, "/ready"))
        assert await answers(ask, "/live"), "the worker is alive meanwhile"
        await until(lambda: answers(ask, "/ready"))
        assert await pids(ask) != [first]
    said = capfd.readouterr()
    assert "127.0.0.1:1\n" not in said.out
    assert said.err.count("127.0.0.1:1\n") >= 40_000


async def test_invalid_address_is_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with supervised("reorder", options=("--babbles",), ready=False):
        await until(lambda: asyncio.sleep(0, caplog.text.count("exit -9") >= 2))
    assert "'here I am' is not an address" in caplog.text


async def test_child_can_wait_for_brokers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A wait for brokers extends the time to announce a port."""
    monkeypatch.setattr(supervising, "START_TIMEOUT_S", 0.2)
    monkeypatch.setattr(supervising, "LONGEST_SILENCE_S", 0.2)

    async with supervised("reorder", brokers_wait_s=2.0, **MUTE) as ask:
        (reason,) = await until(lambda: faults(ask, "/live"))
        assert reason == "reorder: has not announced its port for 2 s and is restarted"


async def test_port_in_use_is_refused() -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        commands = {"merge": ["/there/is/no/such/command"]}
        with pytest.raises(HttpUnavailable, match=str(port)):
            await Supervisor(commands, "127.0.0.1", port, PATIENCE_S).run()


@pytest.mark.parametrize(("code", "ends_with"), [(1, 1), (2, 2), (3, 1)])
async def test_exit_code_follows_the_child(code: int, ends_with: int) -> None:
    options = ("--exit", str(code))
    async with supervised("reorder", options=options, ends_with=ends_with):
        pass


async def assert_gives_up(*command: str, stuck_after_s: float = 0.5) -> None:
    """Assert that the supervisor of a stage that never becomes ready ends by itself."""
    supervisor = Supervisor({"reorder": list(command)}, "127.0.0.1", 0, stuck_after_s)
    running = asyncio.create_task(supervisor.run())
    await until(running.done)
    assert await running == 1


async def test_endless_hangs_are_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Starts are further apart than the window, but the child is never ready between them."""
    monkeypatch.setattr(supervising, "MAX_RESTARTS", 1)
    monkeypatch.setattr(supervising, "RESTART_WINDOW_S", 0.3)
    await assert_gives_up(sys.executable, CHILD, "--hangs")
    assert "stage reorder: ready for 0 s in 2 starts" in caplog.text


async def test_busy_child_gets_more_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A child that computes is given as much time as its consumer group allows."""
    assert supervising.BUSY_PATIENCE_S == MAX_POLL_INTERVAL_S
    command = [sys.executable, CHILD, "--computes"]
    supervisor = Supervisor({"reorder": command}, "127.0.0.1", 0, 0.5)
    running = asyncio.create_task(supervisor.run())
    (child,) = supervisor._children
    await until(lambda: child.silent_s >= 3.0)
    assert "does not answer" in str(child.health)
    first = child.process
    assert first is not None
    assert not child.hung
    monkeypatch.setattr(supervising, "BUSY_PATIENCE_S", 0.5)
    await until(lambda: first.was_killed)
    os.kill(os.getpid(), signal.SIGTERM)  # for the supervisor's handler
    await until(running.done)
    await running


async def test_failing_starts_are_limited(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervising, "MAX_RESTARTS", 2)
    monkeypatch.setattr(supervising, "RESTART_PAUSE_S", 0.01)
    await assert_gives_up("/there/is/no/such/python")
    assert caplog.text.count("stage reorder cannot be started: ") == 3
    assert "stage reorder: ready for 0 s in 3 starts" in caplog.text


@pytest.mark.parametrize("part", ["_run_once", "_poll_child"])
async def test_failing_supervisor_ends_stages(
    part: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: Any) -> None:
        raise ValueError(part)

    monkeypatch.setattr(Supervisor, part, fail)
    await assert_gives_up(sys.executable, CHILD, stuck_after_s=PATIENCE_S)
    assert f"ValueError: {part}" in caplog.text


async def test_child_stopped_first_logs_no_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervising, "STOP_FOLLOWS_WITHIN_S", PATIENCE_S)

    async with supervised("reorder") as ask:
        (pid,) = await pids(ask)
        os.kill(pid, signal.SIGTERM)
        await until(lambda: asyncio.sleep(0, not Path(f"/proc/{pid}").exists()))
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_token_is_sent_to_stages() -> None:
    async with supervised("reorder", options=("--token", TOKEN), token=TOKEN) as ask:
        assert await pids(ask)


def test_lost_parent_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    stage: Any = MagicMock(_stop=asyncio.Event())
    stage.settings.parent = -1  # no process has this id
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            StageProcess._check_health(stage)
    assert caplog.messages == ["the supervisor has ended"]
    assert stage._stop.is_set()


async def test_exit_reason_lasts_until_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervising, "RESTART_PAUSE_S", PATIENCE_S)
    ends = [sys.executable, "-c", "raise SystemExit(7)"]
    supervisor = Supervisor({"merge": ends}, "127.0.0.1", 0, stuck_after_s=PATIENCE_S)
    (child,) = supervisor._children
    child.lines.add([{"at_ns": 1, "level": "error", "text": "the brokers refuse the topic"}])
    running = asyncio.create_task(supervisor.run())
    await until(lambda: asyncio.sleep(0, bool(child.ended)))
    (reason,) = supervisor._answer("ready").reasons
    assert "exit 7: the brokers refuse the topic" in reason
    assert supervisor._answer("live").ok
    child.health, child.ended = {"ready": {"ok": True, "reasons": []}}, ""
    assert supervisor._answer("ready").ok
    supervisor._stopping.set()
    await running
