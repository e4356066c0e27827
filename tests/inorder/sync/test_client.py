"""Examples: the client on real sockets, including servers and clocks that fail."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import Mock

import pytest

from inorder.anchored_clock import AnchoredClock
from inorder.sync import stamps
from inorder.sync.client import SyncClient, SyncStatus, _Talk
from inorder.sync.conversation import Conversation
from inorder.sync.keys import BadKeys, KeyRing
from inorder.sync.packet import UNKNOWN_MONO
from inorder.sync.reason import Reason
from inorder.sync.settings import SyncSettings
from tests.inorder.sync.key_file import key_table
from tests.inorder.sync.sockets import LOOPBACK, TIMEOUT_S, Running, serving
from tests.waiting import calm_s, wait_until

HOUR_NS = 3_600 * 10**9
KEYS = KeyRing.parse(key_table(1, "ab" * 32, "s1"))


def hour_behind() -> AnchoredClock:
    return AnchoredClock(wall_ns=lambda: time.time_ns() - HOUR_NS)


def settings(servers: str, **more: object) -> SyncSettings:
    return SyncSettings(servers, timeout_s=0.2, tries=2, **more)  # type: ignore[arg-type]


def wait_failed(client: SyncClient, reason: Reason) -> None:
    wait_until(lambda: reason in client.status().failures, reason)


def known_offset(status: SyncStatus) -> tuple[int, int]:
    """Return the offset and its error; assert that both are known."""
    assert status.offset_ns is not None
    assert status.error_ns is not None
    return status.offset_ns, status.error_ns


@contextmanager
def silent() -> Iterator[socket.socket]:
    """Yield a socket that receives and never answers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mute:
        mute.bind((LOOPBACK, 0))
        yield mute


def name_of(mute: socket.socket) -> str:
    return "{}:{}".format(*mute.getsockname())


def test_clock_behind_is_measured() -> None:
    """Client and server run on one machine, so the true offset is known."""
    with serving(KEYS) as server:
        clock = hour_behind()
        with SyncClient("s1", settings(server.name, keys=KEYS), clock=clock) as client:
            server.wait_taken(10)
            status = client.status()
            truth_ns = time.time_ns() - clock()
        offset_ns, error_ns = known_offset(status)
        assert abs(offset_ns - truth_ns) <= error_ns + 100_000
        assert error_ns < 50_000_000
        assert (status.rounds >= 9, status.segment, status.disagree) == (True, 0, False)
        for sample in server.taken:
            assert sample.source == "s1"
            assert sample.t3_ns - sample.t4_ns <= truth_ns + 10_000
            assert truth_ns - 10_000 <= sample.t2_ns - sample.t1_ns
            assert sample.mono_ns != UNKNOWN_MONO
        assert len({sample.mono_ns for sample in server.taken}) == 1


def test_each_server_is_asked() -> None:
    with serving() as one, serving() as two:
        with SyncClient("s1", settings(f"{one.name},{two.name}")) as client:
            one.wait_taken(10)
            two.wait_taken(10)
            wait_until(lambda: client.status().rounds >= 20, "both bursts")
            status = client.status()
        assert [each.server for each in status.servers] == [one.name, two.name]
        assert all(each.offset_ns is not None for each in status.servers)
        assert known_offset(status)[1] <= min(each.error_ns or 0 for each in status.servers) + 10**6


def test_disagreeing_servers_give_no_offset() -> None:
    with serving() as one, serving(now_ns=lambda: time.time_ns() + HOUR_NS) as two:
        # The kernel's timestamps are right; only those of the server itself are wrong.
        two.server._socket.setsockopt(socket.SOL_SOCKET, stamps.SO_TIMESTAMPNS, 0)
        with SyncClient("s1", settings(f"{one.name},{two.name}")) as client:
            one.wait_taken(10)
            two.wait_taken(10)
            wait_until(lambda: client.status().disagree, "the quarrel")
            status = client.status()
        assert (status.offset_ns, status.error_ns) == (None, None)
        told_ns = [each.offset_ns for each in status.servers]
        assert told_ns[0] is not None
        assert told_ns[1] is not None
        assert abs(told_ns[1] - told_ns[0] - HOUR_NS) < 10**9


def test_dead_server_is_tolerated() -> None:
    with silent() as mute, serving() as alive:
        with SyncClient("s1", settings(f"{name_of(mute)},{alive.name}")) as client:
            alive.wait_taken(10)
            wait_failed(client, Reason.TIMEOUT)
            status = client.status()
        assert status.offset_ns is not None
        assert status.servers[0].rounds == 0


@pytest.mark.parametrize("first", ["unreachable", "refused", "silent"])
def test_each_address_is_tried(first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host name may also resolve to an address that cannot be reached."""
    with silent() as mute, serving() as alive:
        bad = {
            "unreachable": ("255.255.255.255", 4123),  # No socket can be connected to it.
            "refused": (LOOPBACK, 1),
            "silent": mute.getsockname(),
        }[first]
        kind = (socket.AF_INET, socket.SOCK_DGRAM, 0, "")
        both = [(*kind, bad), (*kind, (LOOPBACK, alive.port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
        with SyncClient("s1", settings("sync.example:4123")) as client:
            alive.wait_taken(10)
            wait_until(lambda: client.status().rounds >= 10, "a burst")


def test_restarted_server_is_found() -> None:
    first = Running()
    with SyncClient("s1", settings(first.name)) as client:
        try:
            first.wait_taken(3)
        finally:
            first.stop()
        wait_until(
            lambda: not {Reason.UNREACHABLE, Reason.TIMEOUT}.isdisjoint(client.status().failures),
            "the silence",
        )
        with serving(port=first.port) as again:
            again.wait_taken(3)


def test_unreachable_server_is_retried() -> None:
    """A refusal comes at once, but the client pauses before it asks again."""
    with silent() as probe:
        nobody = name_of(probe)
    with SyncClient("s1", settings(nobody)) as client:
        wait_failed(client, Reason.UNREACHABLE)
        failures = client.status().failures
        assert sum(failures.values()) <= 3
        assert client.status().offset_ns is None


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (socket.gaierror("no such name"), Reason.UNREACHABLE),
        (ZeroDivisionError("a defect"), Reason.FAILED),
    ],
)
def test_thread_survives_exception(
    monkeypatch: pytest.MonkeyPatch, trouble: Exception, reason: Reason
) -> None:
    with serving() as server, monkeypatch.context() as patched:
        patched.setattr(socket, "getaddrinfo", Mock(side_effect=trouble))
        with SyncClient("s1", settings(server.name)) as client:
            wait_failed(client, reason)
            patched.undo()
            wait_until(lambda: client.status().rounds > 0, "the next try")


@pytest.mark.parametrize("wall_ns", [2**62, -(2**62), 2**63, -(2**64)])
def test_implausible_clock_is_counted(wall_ns: int, caplog: pytest.LogCaptureFixture) -> None:
    clock = AnchoredClock(wall_ns=lambda: wall_ns + (HOUR_NS if wall_ns > 0 else -HOUR_NS))
    with serving() as server, SyncClient("s1", settings(server.name), clock=clock) as client:
        wait_failed(client, Reason.SOURCE_CLOCK)
        status = client.status()
        assert (status.rounds, status.offset_ns, server.taken) == (0, None, [])
        assert set(status.failures) == {Reason.SOURCE_CLOCK}
    assert "Traceback" not in caplog.text


def test_hanging_lookup_blocks_no_close(monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = threading.Event()

    def hang(*_: object, **__: object) -> None:
        hanging.wait(TIMEOUT_S)
        raise socket.gaierror("at last")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    began_s = time.monotonic()
    client = SyncClient("s1", settings("sync.invalid:4123"))
    client.start()
    assert client.status().offset_ns is None
    client.close(timeout_s=0.2)
    assert time.monotonic() - began_s < TIMEOUT_S / 2
    hanging.set()


def test_unstartable_thread_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = RuntimeError("can't start new thread")
    monkeypatch.setattr(threading.Thread, "start", Mock(side_effect=refused))
    with SyncClient("s1", settings("127.0.0.1:1")) as client:
        assert client.status().failures == {Reason.FAILED: 1}


def test_start_and_close_can_repeat() -> None:
    with serving() as server:
        client = SyncClient("s1", settings(server.name))
        client.close()
        client.start()  # The client stays closed.
        assert client.status().servers == ()
        with SyncClient("s1", settings(server.name)) as other:
            other.start()
            server.wait_taken(1)
            assert len(other.status().servers) == 1
            other.close()


def test_close_awaits_no_answer() -> None:
    with silent() as mute:
        client = SyncClient("s1", SyncSettings(name_of(mute), timeout_s=60.0))
        client.start()
        mute.settimeout(TIMEOUT_S)
        mute.recv(400)  # The client has sent a request, and waits for the answer.
        began_s = time.monotonic()
        client.close(timeout_s=60.0)
        assert calm_s(began_s) < 3.0
        assert not [t for t in threading.enumerate() if t.name.startswith("inorder-sync 127")]


def test_bad_name_or_key_is_refused() -> None:
    with pytest.raises(ValueError, match="has 65 bytes"):
        SyncClient("x" * 65, settings("a:1"))
    with pytest.raises(BadKeys, match="no key for source 's2'; add it"):
        SyncClient("s2", settings("a:1", keys=KEYS))


def test_kernel_timestamp_is_converted() -> None:
    clock = hour_behind()
    client = SyncClient("s1", settings("a:1"), clock=clock)
    conversation = Conversation("s1", 0, client._key, client._settings, clock, client._watch)
    talk = _Talk(LOOPBACK, 1, conversation, clock, threading.Event())

    def arrival_ns(ago_ns: int) -> int:
        seconds, ns = divmod(time.time_ns() - ago_ns, 10**9)
        stamp = seconds.to_bytes(8, "little") + ns.to_bytes(8, "little")
        level, kind = socket.SOL_SOCKET, stamps.SO_TIMESTAMPNS
        return talk._arrival_ns([(level, kind, stamp)])

    for ago_ns in (0, 1_000_000, 40_000_000):
        found_ns = arrival_ns(ago_ns)
        late_ns = clock() - found_ns
        assert ago_ns <= late_ns + 1_000 < ago_ns + 20_000_000
    for absurd_ns in (-HOUR_NS, HOUR_NS, 60_000_000):  # Clock steps, or a huge delay.
        assert clock() - arrival_ns(absurd_ns) < 20_000_000
