"""A proxy for brokers that can be cut, can lose answers, and can deliver late what it has kept.

A `Way` stands in front of one broker, which advertises the way's port. A `Judge` decides the `Fate`
of each request of a transactional producer. A kept request reaches the broker when the judge wants
it, on the connection it came by, which the client may have closed. All other requests pass.

Requests and answers are parsed by the client's own definitions, in the versions that it sends.
"""

from __future__ import annotations

import asyncio
import io
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from aiokafka.protocol import produce, transaction

from cli.local.kafka import KafkaBroker, jars
from cli.local.ports import LOOPBACK

LISTENER = "THROUGH"
HEAD = struct.Struct(">i")
LATE_ANSWER_S = 20.0
"""Time for the broker to answer what was delivered late."""

ANSWERS: dict[int, list[Any]] = {
    0: [getattr(produce, f"ProduceResponse_v{version}", None) for version in range(9)],
    22: [transaction.InitProducerIdResponse_v0],
    24: [transaction.AddPartitionsToTxnResponse_v0],
    25: [transaction.AddOffsetsToTxnResponse_v0],
    26: [transaction.EndTxnResponse_v0],
    28: [transaction.TxnOffsetCommitResponse_v0],
}
NAMES = {
    0: "Produce",
    22: "InitProducerId",
    24: "AddPartitionsToTxn",
    25: "AddOffsetsToTxn",
    26: "EndTxn",
    28: "TxnOffsetCommit",
}


class Fate(Enum):
    PASS = "passes"
    CUT = "is kept, and its connection is cut"
    KEPT = "is kept, and its connection stays"
    UNANSWERED = "passes, and its connection is cut in place of the answer"


@dataclass(frozen=True)
class Request:
    """A request of a transactional producer; `api` is its name."""

    api: str
    version: int
    producer: str
    frame: bytes

    @property
    def is_of_changelog(self) -> bool:
        return b".changelog" in self.frame


@dataclass
class Kept:
    """A request that has not reached the broker yet."""

    request: Request
    _writer: asyncio.StreamWriter
    _answer: asyncio.Future[str]

    async def deliver(self) -> str:
        """Deliver the request; return the error codes of the answer, or "none" if the connection
        was closed.
        """
        with suppress(OSError, TimeoutError):
            self._writer.write(HEAD.pack(len(self.request.frame)) + self.request.frame)
            return await asyncio.wait_for(asyncio.shield(self._answer), LATE_ANSWER_S)
        return "none"


class Judge:
    """A judge that lets all requests pass."""

    async def fate(self, request: Request) -> Fate:
        """Return the fate of a request.

        A judge can wait first; the request, and what follows it on its connection, waits with it.
        """
        return Fate.PASS

    def answered(self, request: Request, codes: str) -> None:
        """Note the broker's answer to a request that was not late."""

    async def kept(self, kept: Kept) -> None:
        """Deliver the kept request when its time has come."""


class Way:
    """A way to one broker, at `target` once that is known; `bytes_per_s` limits producers."""

    def __init__(self) -> None:
        self.judge = Judge()
        self.target = 0
        self.port = 0
        self.bytes_per_s = 0.0
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, LOOPBACK, 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection(LOOPBACK, self.target)
        except OSError:
            writer.transport.abort()
            return
        line = _Line(self, writer, up_writer)
        answers = self._run(line.answers(up_reader))
        with suppress(asyncio.IncompleteReadError, OSError):
            while await line.passed(await _frame(reader)):
                pass
        line.is_open = False
        writer.transport.abort()
        await asyncio.gather(*line.late, return_exceptions=True)
        up_writer.close()
        await asyncio.gather(answers, return_exceptions=True)

    def _run(self, coroutine: Any) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class _Line:
    """A client's connection, and the matching one to the broker."""

    def __init__(self, way: Way, down: asyncio.StreamWriter, up: asyncio.StreamWriter) -> None:
        self._way = way
        self._down = down
        self._up = up
        self._expected: dict[int, tuple[Request, Fate, asyncio.Future[str]]] = {}
        self.late: list[asyncio.Task[None]] = []
        self.is_open = True

    async def passed(self, frame: bytes) -> bool:
        """Handle a frame; return False if the connection is cut."""
        request = _request(frame)
        if request is None:
            await self._pass(frame)
            return True
        fate = await self._way.judge.fate(request)
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._expected[HEAD.unpack_from(frame, 4)[0]] = request, fate, answer
        if fate in (Fate.CUT, Fate.KEPT):
            kept = Kept(request, self._up, answer)
            self.late.append(self._way._run(self._way.judge.kept(kept)))
            return fate is Fate.KEPT
        if self._way.bytes_per_s and request.api == "Produce":
            await asyncio.sleep(len(frame) / self._way.bytes_per_s)
        await self._pass(frame)
        return True

    async def _pass(self, frame: bytes) -> None:
        self._up.write(HEAD.pack(len(frame)) + frame)
        await self._up.drain()

    async def answers(self, reader: asyncio.StreamReader) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                body = await _frame(reader)
                found = self._expected.pop(HEAD.unpack_from(body)[0], None)
                if found is not None and not self._passes_down(body, *found):
                    continue
                if self.is_open:
                    self._down.write(HEAD.pack(len(body)) + body)
        for _, _, answer in self._expected.values():
            if not answer.done():
                answer.set_result("connection closed")
        self._down.transport.abort()

    def _passes_down(
        self, body: bytes, request: Request, fate: Fate, answer: asyncio.Future[str]
    ) -> bool:
        codes = _codes(request, body)
        if fate in (Fate.CUT, Fate.KEPT):
            answer.set_result(codes)
            return False
        self._way.judge.answered(request, codes)
        if fate is Fate.UNANSWERED:
            self.is_open = False
            self._down.transport.abort()
        return fate is Fate.PASS


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = HEAD.unpack(await reader.readexactly(HEAD.size))
    return await reader.readexactly(size)


def _request(frame: bytes) -> Request | None:
    """Return the request in a frame, or None if it is not from a transactional producer."""
    api, version = struct.unpack_from(">hh", frame)
    if api not in ANSWERS or version >= len(ANSWERS[api]) or ANSWERS[api][version] is None:
        return None
    at = 8 + 2 + max(0, struct.unpack_from(">h", frame, 8)[0])
    (size,) = struct.unpack_from(">h", frame, at)
    if size <= 0:
        return None
    producer = frame[at + 2 : at + 2 + size].decode()
    if NAMES[api] == "EndTxn" and struct.unpack_from(">q", frame, at + 2 + size)[0] < 0:
        return None  # Such a request only checks the producer's rights.
    return Request(NAMES[api], version, producer, frame)


def _codes(request: Request, body: bytes) -> str:
    api = next(number for number, name in NAMES.items() if name == request.api)
    answer = ANSWERS[api][request.version].decode(io.BytesIO(body[HEAD.size :]))
    if request.api == "Produce":
        found = {part[1] for _, parts in answer.topics for part in parts}
    elif request.api in ("AddPartitionsToTxn", "TxnOffsetCommit"):
        found = {part[1] for _, parts in answer.errors for part in parts}
    else:
        found = {answer.error_code}
    return "/".join(map(str, sorted(found)))


@dataclass
class Cluster:
    """A cluster of brokers; `direct` goes to them, and `through` to the ways in front of them."""

    direct: str
    through: str
    ways: list[Way] = field(default_factory=list)

    def judge(self, judge: Judge) -> None:
        for way in self.ways:
            way.judge = judge


@contextmanager
def cluster(folder: Path, *, nodes: int = 1, version: str = jars.VERSION) -> Iterator[Cluster]:
    """Yield brokers from jars, with a way in front of each."""
    ways = [Way() for _ in range(nodes)]
    is_open, shut = threading.Event(), threading.Event()

    async def serve() -> None:
        servers = [await way.open() for way in ways]
        is_open.set()
        while not shut.is_set():
            await asyncio.sleep(0.05)
        for server in servers:
            server.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="ways", daemon=True)
    thread.start()
    assert is_open.wait(10.0)
    broker = KafkaBroker(
        folder,
        nodes=nodes,
        overrides={"min.insync.replicas": "1"},
        listeners={LISTENER: "PLAINTEXT"},
        advertised={LISTENER: [way.port for way in ways]},
        version=version,
    )
    for way, address in zip(ways, broker.address(LISTENER).split(","), strict=True):
        way.target = int(address.rpartition(":")[2])
    through = ",".join(f"{LOOPBACK}:{way.port}" for way in ways)
    try:
        with broker:
            yield Cluster(broker.bootstrap, through, ways)
    finally:
        shut.set()
        thread.join(10.0)


async def until(found: Callable[[], bool], timeout_s: float) -> bool:
    """Return whether the condition became true in time."""
    deadline_s = time.monotonic() + timeout_s
    while not found():
        if time.monotonic() > deadline_s:
            return False
        await asyncio.sleep(0.001)
    return True
