"""Runs `inorder worker`: one process per stage, restarted if necessary, behind one port.

A rebalance or a crash of one stage does not stop the others, and each can use its own CPU core.
The supervisor restarts a stage process that ends unexpectedly, because a new start is the best
answer to failed retries. At most `MAX_RESTARTS` restarts are allowed within `RESTART_WINDOW_S`.
Only time in which the stage was ready counts, so the supervisor also gives up on a process that
hangs at each start. A process that refuses its settings (exit 2) ends the worker. If the system
cannot start a process, that counts as a failed start. If the supervisor is killed, its children
get a signal; if it fails, it ends them.

A stage process that hangs cannot end itself, so the supervisor kills it by its id and starts a new
one. It does so when the process has not answered on its port for `stuck_after_ns`. A process that
computes all the while is left alone for `BUSY_PATIENCE_S`. For a costly query may look at many
events that are released at one instant. The supervisor also kills a process if the port is not
announced within `START_TIMEOUT_S` and the time that the process may wait for brokers. Only time in
which the supervisor was awake counts.

A stage process announces the address of its HTTP server (`child_process`). The supervisor's own
server answers for all stages:

* `/live` and `/ready` are positive if all stages are.
* `/metrics` has the families of all stages (`scrapes`), and whether each is ready.
* `/explain` says for all stages which events are buffered, and why.
* `/event` joins the facts about one event.
* `/` is the worker's status page, which shows all of this.

The supervisor asks each stage for its health every `ASK_PAUSE_S` while one of them is not ready or
after a recent request, else every `CALM_PAUSE_S`. It asks for the rest only on request. It notices
at once that a process has ended.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from socket import socket
from typing import Any, Final

import aiohttp
import orjson
from prometheus_client import CollectorRegistry

from agents.exits import Exit
from agents.process import child_process
from agents.process.child_process import SIGNALS, Child, NotBegun, Process
from agents.process.memory import memory_limit
from agents.process.scrapes import SUPERVISOR, Scrapes, resident_bytes
from agents.watch.last_lines import LOG, LastLines
from agents.watch.location import STANDBY, explain_event
from agents.watch.page.serving import Page
from agents.watch.page.view import View, build_view
from agents.watch.port.http import Health, HttpServer, parse_address
from agents.watch.port.question import Question
from agents.watch.port.token import make_bearer_headers

log = logging.getLogger(__name__)

MAX_RESTARTS: Final = 10
RESTART_WINDOW_S: Final = 600.0
RESTART_PAUSE_S: Final = 0.5
STOP_FOLLOWS_WITHIN_S: Final = 1.0
"""Time within which a signal to the whole process group also reaches the supervisor."""
STOP_TIMEOUT_S: Final = 40.0
"""Time for a stage to finish its batch, commit a checkpoint and leave the group, before a kill."""

ASK_TIMEOUT_S: Final = 2.0
ASK_PAUSE_S: Final = 0.5
CALM_PAUSE_S: Final = 2.0
LATELY_S: Final = 10.0
JUDGED: Final = ("live", "ready", LOG)
"""The verdicts and the log in a stage's `/health`; all other fields describe how the stage runs."""
LONGEST_SILENCE_S: Final = 5.0
"""Maximum time between two requests that counts as silence of a stage.

So no stage is blamed when the machine was suspended.
"""

BUSY_PATIENCE_S: Final = 300.0
"""Time for which a stage that computes may be silent; then its partitions go to others anyway.

It is the `MAX_POLL_INTERVAL_S` of agents.kafka.fetching, which is not imported here: the supervisor
needs no Kafka client.
"""

BUSY_SHARE: Final = 0.1
"""Share of a core from which on a silent stage counts as computing.

The thread of its Kafka client takes less, and a busy machine leaves it that much.
"""

WITHOUT_MEMORY: Final = (-signal.SIGKILL, -signal.SIGABRT)
"""Exit codes of a process that ran out of memory."""

START_TIMEOUT_S: Final = 120.0
"""Time for a stage to announce its port, beyond the time it may wait for brokers."""


@dataclass(eq=False, repr=False)
class Supervisor:
    """The parent of a worker's stage processes; `run` returns the exit code.

    Attributes:
        commands: The command of each stage.
        brokers_wait_s: Time for which a stage may wait for brokers.
        token: Token that the supervisor's server requires, and that it sends to its stages.
        forked: Stage processes that are already running.
        sockets: Bound sockets of the supervisor's server, if any.
        topology_stages: All stages of the topology file, some of which other workers may run.
        settings: Function that returns the topology file with all keys, for the status page.
    """

    commands: Mapping[str, Sequence[str]]
    host: str
    port: int
    stuck_after_s: float
    brokers_wait_s: float = 0.0
    token: str | None = None
    forked: Mapping[str, Process] = field(default_factory=dict)
    sockets: Sequence[socket] = ()
    topology_stages: Sequence[str] = ()
    settings: Callable[[], str] = str

    def __post_init__(self) -> None:
        self._start_timeout_s = max(START_TIMEOUT_S + self.brokers_wait_s, self.stuck_after_s)
        self._children = [
            Child(stage, command, self.forked.get(stage))
            for stage, command in self.commands.items()
        ]
        self._stopping = asyncio.Event()
        self._code = Exit.DONE
        self._scrapes = Scrapes(self._children, self.topology_stages or tuple(self.commands))
        # Time of the last request for `/live`, `/ready` or the status page.
        self._asked_s = time.monotonic()
        self._lines = LastLines()
        registry = CollectorRegistry()
        registry.register(self._scrapes)
        self._http = HttpServer(
            registry=registry,
            live=lambda: self._answer("live"),
            ready=lambda: self._answer("ready"),
            about=self._about,
            explain=self._explain,
            host=self.host,
            port=self.port,
            scrape=self._scrape,
            page=Page(self._look, self.settings),
            token=self.token,
            event=self._locate,
            sockets=self.sockets,
        )

    async def run(self) -> int:
        with self._lines.listen():
            loop = asyncio.get_running_loop()
            for number in SIGNALS:
                loop.add_signal_handler(number, self._stopping.set)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            child_process.watch_children(
                lambda: [child.process for child in self._children if child.process is not None]
            )
            host, port = await self._http.start()
            log.info("http://%s:%d/ready /live /metrics /explain, and / for the page", host, port)
            asking = asyncio.create_task(self._run_or_stop(self._poll_health()))
            keepers = [
                asyncio.create_task(self._run_or_stop(self._keep_running(child)))
                for child in self._children
            ]
            await self._stopping.wait()
            await asyncio.gather(*(self._stop_child(child) for child in self._children))
            await self._await_end(keepers)
            asking.cancel()
            await asyncio.wait([asking])
            await self._http.stop()
            return self._code

    async def _run_or_stop(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task of the supervisor; if it fails, stop all stages and the supervisor."""
        try:
            await work
        except Exception:
            log.exception("a task of the supervisor failed; the stages and the worker stop")
            self._fail(Exit.FAILED)

    async def _await_end(self, keepers: Iterable[asyncio.Task[None]]) -> None:
        """Wait until the tasks that keep the children have ended; log an error otherwise."""
        try:
            await asyncio.wait_for(asyncio.gather(*keepers), child_process.KILLED_WITHIN_S)
        except TimeoutError:
            log.error(
                "a stage that was killed still runs after %.0f s; it is abandoned",
                child_process.KILLED_WITHIN_S,
            )
            self._fail(Exit.FAILED)

    # -- processes -------------------------------------------------------------------------

    async def _keep_running(self, child: Child) -> None:
        """Run the child repeatedly until the supervisor stops or the child fails too often."""
        code: int | None
        while not self._stopping.is_set():
            try:
                code = await self._run_once(child)
            except NotBegun as refused:
                log.error("stage %s cannot be started: %s", child.stage, refused)
                code = None
            if self._stopping.is_set():
                # The kill of a hung child has been logged.
                if code not in {None, Exit.DONE} and not child.hung:
                    log.error(
                        "stage %s: exit %d while stopping%s",
                        child.stage,
                        code,
                        _explain_exit(child),
                    )
                    self._fail(_exit_of(code))
                return
            if code == Exit.DONE and await self._await_stop():
                return
            if code is not None:
                log.error("stage %s: exit %d%s", child.stage, code, _explain_exit(child))
            if code == Exit.REFUSED or not self._may_restart(child):
                self._fail(_exit_of(code))
                return
            await asyncio.sleep(RESTART_PAUSE_S)

    async def _await_stop(self) -> bool:
        """Return whether a child's regular end is soon followed by a stop of the supervisor."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), STOP_FOLLOWS_WITHIN_S)
        return self._stopping.is_set()

    async def _run_once(self, child: Child) -> int:
        child.started_s.append(child.ready_s)
        child.silent_s = child.idle_s = child.cpu_s = 0.0
        child.resident_bytes = 0
        process, child.forked = child.forked or child_process.spawn(child.command), None
        child.process = process
        process.reap()  # The process may have ended before `attend` was called.
        if self._stopping.is_set():
            process.terminate()  # The stop was requested before there was a process to signal.
        with process.pipe:
            reading = asyncio.create_task(self._read_address(child, process))
            # Wait for the process, not for the pipe, which may fail while the process runs.
            code = await process.wait()
            reading.cancel()
            await asyncio.wait([reading])
        if code == -signal.SIGTERM and child.address is None:
            # The process was stopped before its start was complete, so it owned nothing.
            code = Exit.DONE
        child.address = None
        child.metrics = None
        child.health = {"fault": "not running"}
        if code != Exit.DONE:
            child.ended = f"exit {code}{_explain_exit(child)}{_find_last_error(child)}"
        return code

    async def _read_address(self, child: Child, process: Process) -> None:
        """Store the child's address as soon as the child announces it."""
        line = await child_process.read_address_line(process.pipe)
        try:
            parse_address(line)
        except ValueError as error:
            if line:  # An empty line means that the child has ended.
                log.error("stage %s announced no address: %s; it is killed", child.stage, error)
                process.kill()
            return
        child.address, child.hung = line, ""
        child.silent_s = child.idle_s = 0.0

    def _may_restart(self, child: Child) -> bool:
        starts = child.started_s
        while starts and starts[0] < child.ready_s - RESTART_WINDOW_S:
            starts.popleft()
        if len(starts) <= MAX_RESTARTS:
            return True
        was_ready_s = child.ready_s - starts[0]
        log.error("stage %s: ready for %.0f s in %d starts", child.stage, was_ready_s, len(starts))
        return False

    def _fail(self, code: Exit) -> None:
        self._code = max(self._code, code)
        self._stopping.set()

    async def _stop_child(self, child: Child) -> None:
        process = child.process
        if process is None or not child.runs:
            return
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
        except TimeoutError:
            log.error("stage %s did not stop within %.0f s", child.stage, STOP_TIMEOUT_S)
            process.kill()

    # -- answering for all -------------------------------------------------------------------

    def _new_session(self) -> aiohttp.ClientSession:
        """Return a session for requests to stages, whose ports require the token too."""
        timeout = aiohttp.ClientTimeout(total=ASK_TIMEOUT_S)
        return aiohttp.ClientSession(timeout=timeout, headers=make_bearer_headers(self.token))

    async def _poll_health(self) -> None:
        """Request the health of all stages regularly, so `/live` and `/ready` answer at once."""
        asked_s = time.monotonic()
        async with self._new_session() as session:
            while True:
                await asyncio.gather(
                    *(self._poll_child(session, child) for child in self._children)
                )
                since_s, asked_s = asked_s, time.monotonic()
                for child in self._children:
                    self._kill_if_hung(child, min(asked_s - since_s, LONGEST_SILENCE_S))
                await asyncio.sleep(self._pause_s())

    def _pause_s(self) -> float:
        is_calm = time.monotonic() - self._asked_s > LATELY_S and self._health_of_stages("ready").ok
        return min(CALM_PAUSE_S, self.stuck_after_s / 2) if is_calm else ASK_PAUSE_S

    async def _poll_child(self, session: aiohttp.ClientSession, child: Child) -> None:
        if not child.runs or child.address is None:
            child.health = {"fault": "starting" if child.runs else "not running"}
            return
        try:
            async with session.get(f"http://{child.address}/health") as response:
                said = await response.json() if response.ok else None
            child.health = said or {"fault": f"answers {response.status}"}
            child.ended = child.ended if said is None else ""
            child.lines.add(child.health.get(LOG, []))
        except (TimeoutError, aiohttp.ClientError) as error:
            child.health = {"fault": f"does not answer: {type(error).__name__}"}

    async def _scrape(self) -> None:
        """Request each stage's metrics; keep the last ones if it does not answer."""
        for child, text in zip(self._children, await self._ask("/metrics"), strict=True):
            if text is not None:
                child.metrics, child.metrics_s = text.decode(), time.monotonic()

    async def _explain(self) -> list[Any]:
        """Return the explanations of all stages that answer."""
        return [
            part for body in await self._ask("/explain") for part in orjson.loads(body or b"[]")
        ]

    async def _ask(self, path: str, query: Mapping[str, str] | None = None) -> list[bytes | None]:
        """Return the stages' answers to a request, None for one that does not answer."""

        async def ask(child: Child) -> bytes | None:
            process = child.process
            if process is None or child.address is None or "fault" in child.health:
                return None
            try:
                async with session.get(f"http://{child.address}{path}", params=query) as response:
                    body = await response.read()
            except (TimeoutError, aiohttp.ClientError):
                return None
            is_of_it = child.process is process and process.returncode is None
            return body if response.ok and is_of_it else None

        async with self._new_session() as session:
            return await asyncio.gather(*map(ask, self._children))

    async def _locate(self, asked: Question) -> dict[str, Any]:
        """Return the stages' facts about one event, and the stages that do not answer."""
        answers = await self._ask("/event", asked.query())
        silent = [
            f"stage {child.stage} does not answer"
            for child, facts in zip(self._children, answers, strict=True)
            if facts is None
        ]
        known = [fact for facts in answers for fact in orjson.loads(facts or b"[]")]
        standbys = [child.stage for child in self._children if child.health.get(STANDBY)]
        return explain_event(asked, known, silent, standbys)

    def _kill_if_hung(self, child: Child, elapsed_s: float) -> None:
        """Kill the child if it has not answered for too long."""
        if not child.reasons("ready"):
            child.ready_s += elapsed_s
        if child.process is not None and child.runs:
            child.resident_bytes = resident_bytes(child.process.pid) or child.resident_bytes
        if not child.runs or "fault" not in child.health:
            child.silent_s = child.idle_s = 0.0
            return
        child.silent_s += elapsed_s
        is_announced = child.address is not None
        patience_s = self.stuck_after_s if is_announced else self._start_timeout_s
        if not (is_announced and child.has_computed(BUSY_SHARE * elapsed_s)):
            child.idle_s += elapsed_s
        if child.idle_s >= patience_s or child.silent_s >= max(patience_s, BUSY_PATIENCE_S):
            what = "does not answer" if is_announced else "has not announced its port"
            child.hung = f"{what} for {child.silent_s:.0f} s and is restarted"
            log.error("stage %s: %s", child.stage, child.hung)
            assert child.process is not None
            child.process.kill()

    def _answer(self, path: str) -> Health:
        self._asked_s = time.monotonic()
        return self._health_of_stages(path)

    def _about(self) -> dict[str, Any]:
        """Return each stage's description of how it runs."""
        return {
            "stages": {
                child.stage: {n: word for n, word in child.health.items() if n not in JUDGED}
                for child in self._children
            }
        }

    def _health_of_stages(self, path: str) -> Health:
        reasons, notes = [], []
        for child in self._children:
            said = child.health.get(path, {}).get("notes", ())
            reasons += [f"{child.stage}: {reason}" for reason in child.reasons(path)]
            notes += [f"{child.stage}: {note}" for note in said]
        return Health(not reasons, tuple(reasons), tuple(notes))

    async def _look(self) -> View:
        _, explained = await asyncio.gather(self._scrape(), self._explain())
        health = {path: self._answer(path).plain() for path in ("live", "ready")}
        lines = {SUPERVISOR: self._lines, **{each.stage: each.lines for each in self._children}}
        log = {name: each.plain() for name, each in lines.items()}
        return build_view(health, explained, self._scrapes.texts(), log)


def _explain_exit(child: Child) -> str:
    """Return an addition to the log line of a process that probably ran out of memory, or "".

    The system kills such a process, or the process aborts itself.
    """
    process = child.process
    if process is None or process.was_killed or process.returncode not in WITHOUT_MEMORY:
        return ""
    had = f"it used {child.resident_bytes >> 20:,} MiB, " if child.resident_bytes else ""
    return (
        f", probably because memory ran out: {had}and all processes of the worker may use"
        f" {memory_limit() >> 20:,} MiB; raise the memory limit, or lower max_held_bytes"
        " (docs/operate/size.md, Memory)"
    )


def _find_last_error(child: Child) -> str:
    """Return the last error that the ended process is known to have logged, or ""."""
    errors = [line["text"] for line in child.lines.plain() if line["level"] == "error"]
    return f": {errors[-1]}" if errors else ""


def _exit_of(code: int | None) -> Exit:
    return Exit.REFUSED if code == Exit.REFUSED else Exit.FAILED
