"""Examples: keys, feed and bounds in Redis, and its failures."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import redis

import sinks.redis as kind
from infra.redis import RedisServer
from sinks.redis import RedisBounds, RedisKeys, RedisSink, connect, keys_of
from sinks.sink import (
    BegunAnew,
    MarkStep,
    Progress,
    Reader,
    SinkError,
    SinkUnavailable,
    SinkUnusable,
)
from tests.services import UniqueName
from tests.sinks.results import record, result
from tests.waiting import calm_s, wait_until

pytestmark = pytest.mark.redis

READER = Reader("group", "results")
WELL_BEYOND_A_NODE = 300
"""Redis trims a stream by whole nodes, of 100 entries by default."""


@pytest.fixture
def name(unique_name: UniqueName) -> str:
    return unique_name("results")


@pytest.fixture
def keys(name: str) -> RedisKeys:
    return keys_of(name)


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[Any]:
    with redis.Redis.from_url(redis_server.url) as opened:
        yield opened


@pytest.fixture
def sink(redis_server: RedisServer, name: str) -> Iterator[RedisSink]:
    opened = RedisSink(connect(redis_server.url), name)
    yield opened
    opened.close()


def feed(client: Any, keys: RedisKeys) -> list[tuple[str, int, str]]:
    entries = [values for _, values in client.xrange(keys.feed)]
    return [
        (each[b"id"].decode(), int(each[b"revision"]), each[b"op"].decode()) for each in entries
    ]


def test_older_revision_is_ignored(sink: RedisSink, client: Any, keys: RedisKeys) -> None:
    for revision, op in [(2, "update"), (1, "update"), (3, "retract"), (2, "update"), (3, "emit")]:
        sink.write([result("a", revision, op)])
    assert client.hgetall(keys.latest) == {}
    assert client.hgetall(keys.revisions) == {b"a": b"3"}
    assert feed(client, keys) == [("a", 2, "update"), ("a", 3, "retract")]
    sink.write([result("a", 4, "emit")])
    assert client.hgetall(keys.latest) == {b"a": record("a", 4, "emit")}


def test_revisions_compare_as_numbers(sink: RedisSink, client: Any, keys: RedisKeys) -> None:
    sink.write([result("a", 9)])
    sink.write([result("a", 10)])
    sink.write([result("b", 2**53 - 2)])
    sink.write([result("b", 2**53 - 1)])
    assert client.hmget(keys.revisions, "a", "b") == [b"10", b"%d" % (2**53 - 1)]


def test_feed_and_latest_are_trimmed(
    redis_server: RedisServer, name: str, client: Any, keys: RedisKeys
) -> None:
    bounds = RedisBounds(max_results=50, max_feed=100)
    with closing(RedisSink(connect(redis_server.url), name, bounds)) as sink:
        for number in range(1000):
            sink.write([result(f"r{number}", 0)])
        sink.write([result("r960", 1)])  # so it is among the last to be removed
        sink.write([result(f"s{number}", 0, "retract") for number in range(49)])
    assert client.zcard(keys.recent) == client.hlen(keys.revisions) == 50
    assert client.hkeys(keys.latest) == [b"r960"]
    assert 100 <= client.xlen(keys.feed) < 100 + WELL_BEYOND_A_NODE


def test_lowered_bound_is_reached(
    redis_server: RedisServer, name: str, sink: RedisSink, client: Any, keys: RedisKeys
) -> None:
    """Each call removes more results than it adds."""
    sink.write([result(f"r{number}", 0) for number in range(2500)])
    with closing(RedisSink(connect(redis_server.url), name, RedisBounds(max_results=10))) as low:
        for number in range(4):
            low.write([result(f"s{number}", 0)])
    assert client.hlen(keys.latest) == 10


def test_too_large_result_is_refused(sink: RedisSink) -> None:
    """Without this limit, a bound on the number of results would not bound their bytes."""
    large = result("large", 0, values={"a": "0" * kind.BYTES_PER_CALL})
    assert [each.result.id for each in sink.write([result("a", 0), large])] == ["large"]


def test_batch_above_call_bound_is_written(sink: RedisSink, client: Any, keys: RedisKeys) -> None:
    large = [result(f"l{number}", 0, values={"v": "x" * (3 << 20)}) for number in range(3)]
    small = [result(f"s{number:04}", 0) for number in range(1201)]
    sink.write([*large, *small])
    assert client.hlen(keys.latest) == 1204


def test_keys_share_one_slot() -> None:
    """All keys have the sink's name as hash tag. Names with braces, empty names and bounds below 1
    are refused.
    """
    assert keys_of("results.windows").latest == "inorder:{results.windows}:latest"
    for name in ("", "a{b", "a}b"):
        with pytest.raises(ValueError, match="name"):
            keys_of(name)
    with pytest.raises(ValueError, match="must be 1 or more"):
        RedisBounds(max_feed=0)


@pytest.mark.parametrize("key", ["latest", "feed", "revisions", "recent"])
def test_wrong_key_type_is_reported(
    sink: RedisSink, client: Any, keys: RedisKeys, key: str
) -> None:
    client.set(getattr(keys, key), "something else")
    with pytest.raises(SinkUnusable, match="holds something else"):
        sink.write([result("a", 1)])
    client.delete(getattr(keys, key))
    sink.write([result("a", 1)])
    assert client.hgetall(keys.latest) == {b"a": record("a", 1)}
    assert ("a", 1, "update") in feed(client, keys)


def test_closed_port_fails_in_time(name: str) -> None:
    with socket.socket() as placeholder:
        placeholder.bind(("127.0.0.1", 0))  # bound but not listening, so connections are refused
        port = placeholder.getsockname()[1]
        sink = RedisSink(connect(f"redis://127.0.0.1:{port}/0"), name)
        started_s = time.monotonic()
        with pytest.raises(SinkUnavailable, match="after 3 attempt"):
            sink.write([result()])
        assert calm_s(started_s) < kind.CONNECT_TIMEOUT_S
        sink.close()
        sink.close()
        with pytest.raises(SinkError, match="closed"):
            sink.write([result()])


def test_full_server_is_unavailable(own_redis: RedisServer, name: str) -> None:
    sink = RedisSink(connect(own_redis.url), name)
    with redis.Redis.from_url(own_redis.url) as client:
        client.config_set("maxmemory", "1")
        with pytest.raises(SinkUnavailable, match="memory"):
            sink.write([result("a", 0)])
        client.config_set("maxmemory", "256mb")
        sink.write([result("a", 0)])
        assert client.hgetall(keys_of(name).latest) == {b"a": record("a", 0)}
        assert client.xlen(keys_of(name).feed) == 1
    sink.close()


@pytest.mark.parametrize(
    ("policy", "limit", "warnings"),
    [("allkeys-lru", "256mb", 1), ("allkeys-lru", "0", 0), ("noeviction", "256mb", 0)],
)
def test_eviction_warns_once(
    own_redis: RedisServer,
    name: str,
    caplog: pytest.LogCaptureFixture,
    policy: str,
    limit: str,
    warnings: int,
) -> None:
    with redis.Redis.from_url(own_redis.url) as client:
        client.config_set("maxmemory-policy", policy)
        client.config_set("maxmemory", limit)
    with closing(RedisSink(connect(own_redis.url), name)) as sink:
        for _ in range(2):
            sink.marks(READER)
    assert caplog.text.count("may evict keys (maxmemory-policy allkeys-lru)") == warnings


def test_info_permission_is_not_needed(own_redis: RedisServer, name: str) -> None:
    rights = ["+@all", "-info"]
    with redis.Redis.from_url(own_redis.url) as client:
        client.acl_setuser("app", enabled=True, passwords="+x", keys=["*"], commands=rights)
    url = own_redis.url.replace("//", "//app:x@")
    with closing(RedisSink(connect(url), name)) as sink:
        assert sink.marks(READER).positions == {}


def test_lowered_bound_frees_full_server(own_redis: RedisServer, name: str) -> None:
    large = "x" * 2_000
    sink = RedisSink(connect(own_redis.url), name)
    sink.write([result(f"r{number}", 0, values={"v": large}) for number in range(3_000)])
    with redis.Redis.from_url(own_redis.url) as client:
        client.config_set("maxmemory", int(client.info("memory")["used_memory"]))
        more = [result(f"s{number}", 0, values={"v": large}) for number in range(100)]
        with pytest.raises(SinkUnavailable, match="lower --max-results or --max-feed"):
            sink.write(more)
        sink.close()
        bounds = RedisBounds(max_results=200, max_feed=100)
        with closing(RedisSink(connect(own_redis.url), name, bounds)) as sink:
            sink.write(more)
        assert client.hlen(keys_of(name).latest) == client.zcard(keys_of(name).recent) == 200
        assert client.hexists(keys_of(name).latest, "s99")
        assert client.xlen(keys_of(name).feed) < 100 + WELL_BEYOND_A_NODE


def test_failover_resolves_the_name_again(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the failover the old master lives on as a replica, and its connection stays open."""
    with RedisServer(tmp_path / "old") as old, RedisServer(tmp_path / "new") as new:
        leads_to = [old]
        resolve = socket.getaddrinfo

        def resolved(host: str, port: int, *others: Any) -> Any:
            if host != "redis.example":
                return resolve(host, port, *others)
            return resolve("127.0.0.1", leads_to[0].port, *others)

        monkeypatch.setattr(socket, "getaddrinfo", resolved)
        sink = RedisSink(connect("redis://redis.example:6379/0"), name)
        sink.write([result("a", 0)])
        with redis.Redis.from_url(old.url) as client:
            client.replicaof("127.0.0.1", new.port)
        with pytest.raises(SinkUnavailable, match="is a replica, read-only"):
            sink.write([result("a", 1)])  # the name still leads to the old master
        leads_to[0] = new
        sink.write([result("a", 1)])
        sink.close()
        with redis.Redis.from_url(new.url) as client:
            assert client.hgetall(keys_of(name).latest) == {b"a": record("a", 1)}
        old.kill()  # a master waits for its replicas before it stops


def test_wrong_login_fails_at_once(own_redis: RedisServer, name: str) -> None:
    with redis.Redis.from_url(own_redis.url) as client:
        client.acl_setuser(
            "reader", enabled=True, passwords="+known", keys=["*"], commands=["+get"]
        )
        client.acl_setuser("half", enabled=True, passwords="+known", keys=["*"], commands=["+eval"])
        client.config_set("requirepass", "hidden")
    for who in ("", ":wrong@", "reader:wrong@", "reader:known@", "half:known@"):
        with (
            closing(RedisSink(connect(own_redis.url.replace("//", f"//{who}")), name)) as sink,
            pytest.raises(SinkUnusable, match="user and password") as refused,
        ):
            sink.write([result("a", 0)])
        assert "hidden" not in str(refused.value)
    with closing(RedisSink(connect(own_redis.url.replace("//", "//:hidden@")), name)) as sink:
        sink.write([result("a", 0)])


def test_cluster_redirect_is_followed(tmp_path: Path, name: str) -> None:
    nodes = [RedisServer(tmp_path / str(number), cluster=True) for number in range(2)]
    with nodes[0], nodes[1], ExitStack() as stack:
        clients = [stack.enter_context(redis.Redis.from_url(node.url)) for node in nodes]
        sink = RedisSink(connect(nodes[0].url), name)
        with pytest.raises(SinkUnavailable, match="cluster that does not serve the keys' slot"):
            sink.write([result("a", 0)])
        slot = clients[0].cluster("keyslot", keys_of(name).latest)
        others = [each for each in range(16_384) if each != slot]
        clients[0].cluster("addslots", *others)
        clients[1].cluster("addslots", slot)
        clients[0].cluster("meet", "127.0.0.1", nodes[1].port, nodes[1].bus_port)
        for client in clients:
            wait_until(lambda: whole(client), "the cluster to be whole")  # noqa: B023
        sink.write([result("a", 0)])  # the first node redirects to the second
        sink.write([result("a", 1)])
        assert clients[1].hgetall(keys_of(name).latest) == {b"a": record("a", 1)}
        nodes[1].kill()
        with pytest.raises(SinkUnavailable):
            sink.write([result("a", 2)])
        nodes[1].restart()
        for client in clients:
            wait_until(lambda: whole(client), "the cluster to be whole again")  # noqa: B023
        sink.write([result("a", 2)])
        assert clients[1].hgetall(keys_of(name).latest) == {b"a": record("a", 2)}
        sink.close()


def whole(client: Any) -> bool:
    return bool(client.cluster("info")["cluster_state"] == "ok")


def test_lost_reply_adds_no_second_entry(
    sink: RedisSink, client: Any, keys: RedisKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[Any] = []
    execute: Any = sink._client.execute_command

    def cut(*command: Any) -> Any:
        commands.append(command)
        answer = execute(*command)
        if len(commands) == 1:
            raise redis.TimeoutError("cut before the answer")
        return answer

    monkeypatch.setattr(sink._client, "execute_command", cut)
    sink.write([result("a", 0)])
    assert len(commands) == 2
    assert feed(client, keys) == [("a", 0, "emit")]


def test_marks_are_lost_with_results(sink: RedisSink, client: Any, keys: RedisKeys) -> None:
    """Someone has deleted `revisions` by hand, and `marks` is still there."""
    sink.marks(READER)
    sink.mark(READER, {0: 0})
    sink.write([], Progress(READER, {0: MarkStep(0, 5)}))
    sink.write([result("a", 0)], Progress(READER, {0: MarkStep(5, 10)}))
    client.delete(keys.revisions)
    with pytest.raises(BegunAnew, match="absent or behind"):
        sink.write([result("b", 0)], Progress(READER, {0: MarkStep(10, 20)}))
    marks = sink.marks(READER)
    assert (marks.positions, marks.is_older) == ({}, False)


def test_last_call_moves_the_marks(sink: RedisSink, monkeypatch: pytest.MonkeyPatch) -> None:
    sink.marks(READER)
    sink.mark(READER, {0: 0})
    monkeypatch.setattr(kind, "RESULTS_PER_CALL", 1)
    seen: list[int] = []
    write = sink._write

    def written(*piece: Any) -> None:
        write(*piece)
        seen.append(sink.marks(READER).positions[0])

    monkeypatch.setattr(sink, "_write", written)
    sink.write([result(id_, 0) for id_ in "abc"], Progress(READER, {0: MarkStep(0, 10)}))
    assert seen == [0, 0, 10]
