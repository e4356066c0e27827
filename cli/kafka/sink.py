"""`inorder sink` writes the results of a topic into Redis, PostgreSQL or files, until SIGTERM."""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import click
import orjson

from agents.kafka.brokers import BrokersUnavailable, await_brokers
from agents.kafka.refused_rights import refusal_to_describe
from agents.kafka.security import Security
from agents.watch.port.http import HttpUnavailable
from cli.as_json import json_option
from cli.command_group import CommandGroup
from cli.instance import session_option
from cli.kafka_options import brokers_wait_option, security
from cli.logs import log_option, quiet_option, set_up
from cli.option_group import field_given_by, option, option_group, options_of
from cli.redis_place import add_redis_password, check_access
from cli.serving import http_option, parse_listen_address, serve_http
from cli.topology_file import (
    Refused,
    brokers_option,
    failing,
    kafka_option,
    redis_named,
    refusing,
    topic_named,
)
from sinks.counts import Counts, SinkCollector
from sinks.dead import DeadLetters, DeadLines, DeadTopic
from sinks.marks import Bookmarks, WhenBehind
from sinks.refusals import Refusals
from sinks.runner import Runner, RunnerLimits, SourceFailed, make_consumer
from sinks.sink import Reader, Sink, SinkUnusable

STUCK_S: Final = 180.0
"""The time in seconds without a turn of a sink's loop after which the sink counts as stuck.

Its time-outs are shorter.
"""

log = logging.getLogger("inorder.sink")


@dataclass(frozen=True, slots=True)
class Source:
    """The options that every kind of sink has, such as the topic of results."""

    brokers: str = field_given_by(brokers_option)
    topic: str = field_given_by(topic_named(required=True))
    group: str | None = option(
        "--group",
        metavar="NAME",
        help="Consumer group; sinks of one group share the work. Default: a name made "
        "of the store and the place in it.",
    )
    dead_topic: str | None = option(
        "--dead-topic",
        metavar="NAME",
        help="Topic for dead letters. Default: standard output, one line each.",
    )
    kafka_path: str | None = field_given_by(kafka_option)
    brokers_wait_s: float = field_given_by(brokers_wait_option)
    session_s: float = field_given_by(session_option)
    batch: int = option(
        "--batch",
        type=click.IntRange(min=1),
        default=RunnerLimits().batch_records,
        help="Records to write at once.",
    )
    refill: bool = option(
        "--refill",
        is_flag=True,
        help="If the store has lost results that the group has read, read them again. It may "
        "always be set.",
    )
    adopt: bool = option(
        "--adopt",
        is_flag=True,
        help="If the store lacks results that the group has read, go on without them. Set it for "
        "one start only.",
    )
    http: str = field_given_by(http_option)
    as_json: bool = field_given_by(json_option("SINK"))
    log_style: str = field_given_by(log_option)
    quiet: bool = field_given_by(quiet_option)


_source_options = option_group("source", Source, options_of(Source))


@click.group("sink", cls=CommandGroup)
def command() -> None:
    """Keep the latest results of a topic in a store that applications read."""


@command.command("redis")
@_source_options
@redis_named(required=True)
@click.option(
    "--name",
    help="Keys begin with inorder:{NAME}:, including the braces. Default: the name of the topic.",
)
@click.option(
    "--max-results",
    type=click.IntRange(min=1),
    default=1_000_000,
    help="Most ids to keep; the ones unchanged for longest are removed first.",
)
@click.option(
    "--max-feed",
    type=click.IntRange(min=1),
    default=100_000,
    help="Most entries of the live feed.",
)
def into_redis(
    source: Source, redis: str, name: str | None, max_results: int, max_feed: int
) -> None:
    """Keep current results by id in a hash, and changes in a stream (docs/guides/results.md)."""
    from sinks.redis import RedisBounds, RedisSink, address_of, connect

    name = name or source.topic
    with refusing(ValueError, at="--redis, --name: "):
        place = add_redis_password(redis)
        client = connect(place)
        sink = RedisSink(client, name, RedisBounds(max_results, max_feed))
    check_access(place)
    _run(source, sink, group_of("redis", address_of(client), name))


@command.command("postgres")
@_source_options
@click.option(
    "--postgres",
    required=True,
    envvar="INORDER_POSTGRES",
    metavar="URL",
    help="postgresql://USER@HOST:PORT/DATABASE, or libpq's name=value form. Put a "
    "password into PGPASSWORD or ~/.pgpass, or set this option by its "
    "variable.",
)
@click.option("--table", default="results", help="TABLE or SCHEMA.TABLE.")
@click.option(
    "--set-aside",
    multiple=True,
    metavar="CAUSE",
    help="Constraint, column or SQLSTATE whose refused rows become dead letters, even if the table "
    "refuses many in a row. Without it, the sink then waits until the table is repaired.",
)
def into_postgres(source: Source, postgres: str, table: str, set_aside: tuple[str, ...]) -> None:
    """Keep one row for each id in a table, which is created if absent."""
    from sinks.postgres import PostgresSink

    with refusing(ValueError, at="--postgres, --table: "):
        sink = PostgresSink(postgres, table)
    _run(source, sink, group_of("postgres", sink.address, table), Refusals(set_aside))


@command.command("files")
@_source_options
@click.option(
    "--folder",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the files; it is created if absent.",
)
@click.option(
    "--format",
    type=click.Choice(["parquet", "jsonl"]),
    default="parquet",
    help="Format of the files.",
)
@click.option(
    "--roll-mib",
    type=click.IntRange(min=1),
    default=128,
    help="Finish a file at this size of JSON.",
)
@click.option(
    "--roll-seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=300.0,
    help="Finish a file at this age.",
)
def into_files(
    source: Source,
    folder: Path,
    format: str,  # noqa: A002 - the option has this name
    roll_mib: int,
    roll_seconds: float,
) -> None:
    """Write every revision to Parquet files or JSON lines (docs/guides/results.md)."""
    from sinks.files import FileSink, Form, Rolling

    sink = FileSink(folder, Form(format), Rolling(roll_mib << 20, roll_seconds))
    _run(source, sink, group_of("files", str(folder.resolve().parent), folder.resolve().name))


def group_of(kind: str, store: str, place: str) -> str:
    """Return a group name that differs for each store.

    In one group, each of two stores would get only a part of the results.
    """
    return f"inorder.sink.{kind}.{place}.{sha256(store.encode()).hexdigest()[:8]}"


def _run(source: Source, sink: Sink, group: str, refusals: Refusals | None = None) -> None:
    choose_when_behind(source)
    set_up("sink", quiet=source.quiet, style=source.log_style)
    at = parse_listen_address("--http", source.http)
    access = security(source.kafka_path)
    with refusing(BrokersUnavailable, HttpUnavailable, SinkUnusable), failing(SourceFailed):
        asyncio.run(_serve(source, access, sink, source.group or group, at, refusals))


async def _serve(
    source: Source,
    access: Security,
    sink: Sink,
    group: str,
    at: tuple[str, int],
    refusals: Refusals | None,
) -> None:
    brokers = await await_brokers(source.brokers, access, source.brokers_wait_s)
    topics = [source.topic] + ([source.dead_topic] if source.dead_topic else [])
    for topic, count in (await asyncio.to_thread(brokers.count_partitions, topics)).items():
        if not count:
            hidden = await asyncio.to_thread(refusal_to_describe, brokers, [topic])
            raise Refused(hidden or f"{source.brokers} has no topic {topic}; create it first")
    limits = RunnerLimits(batch_records=source.batch)
    consumer = make_consumer(
        source.brokers, group, access.to_librdkafka(), limits, source.session_s
    )
    bookmarks = Bookmarks(sink, Reader(group, source.topic), choose_when_behind(source))
    dead = _make_dead_letters(source, access)
    runner = Runner(consumer, source.topic, sink, bookmarks, dead, limits, refusals)
    counts = runner.counts
    async with serve_http(
        *(runner, at, SinkCollector(counts), lambda: counts.trouble),
        *(lambda: {"records": counts.records, "trouble": counts.trouble}, STUCK_S),
    ) as where:
        log.info("%s", where)
        log.info("topic %s, group %s", source.topic, group)
        await asyncio.to_thread(runner.run)
    if source.as_json:
        click.echo(orjson.dumps(make_summary(counts)), err=True)
        return
    log.info(
        "stopped; %d records: %d written, %d dead, %d control",
        *(counts.records, counts.written.total(), counts.dead.total(), counts.control),
    )


def choose_when_behind(source: Source) -> WhenBehind:
    """Return what the options say about a store that lacks results."""
    if source.refill and source.adopt:
        raise Refused("--refill reads lost results again, --adopt goes on without them; give one")
    if source.refill:
        return WhenBehind.REFILL
    return WhenBehind.ADOPT if source.adopt else WhenBehind.REFUSE


def make_summary(counts: Counts) -> dict[str, Any]:
    return {
        "records": counts.records,
        "written": {op: count for op, count in counts.written.items() if count},
        "dead": dict(counts.dead),
        "control": counts.control,
        "expired": counts.expired,
        "refills": counts.refills,
    }


def _make_dead_letters(source: Source, access: Security) -> DeadLetters:
    if source.dead_topic is None:
        return DeadLines(sys.stdout.buffer)
    return DeadTopic(source.brokers, source.dead_topic, access.to_librdkafka())
