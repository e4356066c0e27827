"""Every kind of sink, opened on an empty place, and read back as its readers do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import orjson
import psycopg
import redis

from infra.postgres import PostgresServer
from infra.redis import RedisServer
from sinks.files import FileSink, Form, Rolling
from sinks.postgres import PostgresSink
from sinks.redis import RedisSink, connect, keys_of
from sinks.sink import Sink
from tests.sinks.results import Current, current_of, rows_in

KINDS = ("redis", "postgres", "parquet", "jsonl")


@dataclass(frozen=True)
class Place:
    """One place of one kind: sinks on it, one after the other, and what it holds."""

    opened: Callable[[], Sink]
    current: Callable[[], Current]


def redis_place(server: RedisServer, name: str) -> Place:
    def current() -> Current:
        with redis.Redis.from_url(server.url) as client:
            found = client.hgetall(keys_of(name).latest)
            return {id_.decode(): value for id_, value in found.items()}

    return Place(lambda: RedisSink(connect(server.url), name), current)


def postgres_place(server: PostgresServer, table: str) -> Place:
    def current() -> Current:
        with psycopg.connect(server.url) as connection:
            rows = connection.execute(f"select id, record from {table} where op <> 'retract'")
            return {id_: orjson.dumps(value) for id_, value in rows}

    return Place(lambda: PostgresSink(server.url, table), current)


def file_place(folder: Path, form: Form, roll_bytes: int) -> Place:
    return Place(
        lambda: FileSink(folder, form, Rolling(roll_bytes=roll_bytes)),
        lambda: current_of(rows_in(folder)),
    )


def places_of(
    redis_server: RedisServer, postgres_server: PostgresServer, topic: str, folder: Path, form: Form
) -> dict[str, tuple[Place, list[str]]]:
    """A place of each store, with the options of a command that fills it from the topic."""
    table = topic.replace("-", "_").lower()
    return {
        "redis": (redis_place(redis_server, topic), ["--redis", redis_server.url]),
        "postgres": (
            postgres_place(postgres_server, table),
            ["--postgres", postgres_server.url, "--table", table],
        ),
        "files": (
            file_place(folder, form, roll_bytes=1),
            ["--folder", str(folder), "--format", form, "--roll-mib", "1", "--roll-seconds", "0.3"],
        ),
    }
