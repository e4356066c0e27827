"""Each kind of sink, opened on an empty place and read back as its users do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    """A place of one kind: it opens sinks, one after the other, and returns their content."""

    opened: Callable[[], Sink]
    current: Callable[[], Current]
    empty: Callable[[], None]
    remove_marks: Callable[[], None]
    """Removes the marks, so that the results look like those of an older version."""

    copied: Callable[[], Callable[[], None]]
    """Copies the place now; the returned function restores the copy, like a backup."""


def redis_place(server: RedisServer, name: str) -> Place:
    def current() -> Current:
        with redis.Redis.from_url(server.url) as client:
            found = client.hgetall(keys_of(name).latest)
            return {id_.decode(): value for id_, value in found.items()}

    def delete(*keys: str) -> None:
        with redis.Redis.from_url(server.url) as client:
            client.delete(*keys)

    def copied() -> Callable[[], None]:
        with redis.Redis.from_url(server.url) as client:
            copies = {key: client.dump(key) for key in keys_of(name) if client.exists(key)}

        def restore() -> None:
            delete(*keys_of(name))
            with redis.Redis.from_url(server.url) as client:
                for key, copy in copies.items():
                    client.restore(key, 0, copy)

        return restore

    return Place(
        opened=lambda: RedisSink(connect(server.url), name),
        current=current,
        empty=lambda: delete(*keys_of(name)),
        remove_marks=lambda: delete(keys_of(name).marks),
        copied=copied,
    )


def postgres_place(server: PostgresServer, table: str) -> Place:
    def current() -> Current:
        with psycopg.connect(server.url) as connection:
            rows = connection.execute(f"select id, record from {table} where op <> 'retract'")
            return {id_: orjson.dumps(value) for id_, value in rows}

    def run(*statements: Any) -> None:
        with psycopg.connect(server.url) as connection:
            for statement in statements:
                connection.execute(statement)

    marks = f"inorder_sink_mark where target = '{table}'"

    def copied() -> Callable[[], None]:
        run(
            f"create table {table}_rows as table {table}",
            f"create table {table}_marks as select * from {marks}",
        )
        return lambda: run(
            f"delete from {table}",
            f"insert into {table} table {table}_rows",
            f"delete from {marks}",
            f"insert into inorder_sink_mark table {table}_marks",
        )

    return Place(
        opened=lambda: PostgresSink(server.url, table),
        current=current,
        empty=lambda: run(f"drop table {table}"),
        remove_marks=lambda: run(f"delete from {marks}"),
        copied=copied,
    )


def file_place(folder: Path, form: Form, roll_bytes: int) -> Place:
    def copied() -> Callable[[], None]:
        copy = folder.with_name(f"{folder.name}-copy")
        shutil.copytree(folder, copy)

        def restore() -> None:
            shutil.rmtree(folder)
            shutil.copytree(copy, folder)

        return restore

    def remove_marks() -> None:
        for path in folder.glob("_marks*"):
            path.unlink()

    return Place(
        opened=lambda: FileSink(folder, form, Rolling(roll_bytes=roll_bytes)),
        current=lambda: current_of(rows_in(folder)),
        empty=lambda: shutil.rmtree(folder),
        remove_marks=remove_marks,
        copied=copied,
    )


def places_of(
    redis_server: RedisServer, postgres_server: PostgresServer, topic: str, folder: Path, form: Form
) -> dict[str, tuple[Place, list[str]]]:
    """Return a place of each store, with the options of a command that fills it from the topic."""
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
