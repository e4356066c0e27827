"""End to end: the private Redis keeps what it was told through a kill."""

from __future__ import annotations

import pytest
import redis

from infra.redis import RedisServer
from tests.services import UniqueName

pytestmark = pytest.mark.redis


def test_the_shared_one_answers(redis_server: RedisServer, unique_name: UniqueName) -> None:
    with redis.Redis.from_url(redis_server.url) as client:
        key = unique_name("key")
        assert client.get(key) is None
        client.set(key, b"1")
        assert client.get(key) == b"1"


def test_a_durable_one_survives_a_kill(own_redis: RedisServer) -> None:
    with redis.Redis.from_url(own_redis.url) as client:
        client.set("offset", 17)
    own_redis.kill()
    assert not own_redis.process.is_alive()
    own_redis.restart()
    with redis.Redis.from_url(own_redis.url) as client:
        assert client.get("offset") == b"17"
