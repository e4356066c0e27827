"""`inorder worker` runs the stages of a topology until SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from socket import socket

import click
import yaml

from agents.kafka.security import PLAINTEXT
from agents.kafka.stage_topics import has_work, inputs_of
from agents.process.child_process import Process, can_fork, fork
from agents.process.scrapes import COMPILED, CORE, IN_PYTHON
from agents.process.supervisor import Supervisor
from agents.watch.port.http import HttpUnavailable, bind
from cli.functions_text import make_reader
from cli.http_token import export_token, read_http_token
from cli.kafka_options import connect_brokers, security
from cli.local.embedded import EmbeddedBroker
from cli.logs import set_up
from cli.main import main
from cli.program import PROGRAM
from cli.redis_place import add_redis_password, check_access
from cli.run.from_backfill import Backfilled
from cli.run.stage_options import StageOptions, stage_options
from cli.serving import http_option, parse_listen_address
from cli.signing import master_keys
from cli.topology_file import (
    EMBEDDED,
    Refused,
    brokers_named,
    load,
    refusing,
    stage_option,
    topology_option,
)
from inorder import rfc3339
from topology.config import Topology, reference

log = logging.getLogger("inorder.worker")

NS_PER_S = 1_000_000_000
WHO = re.compile(r"//[^/@\s]*@")


@click.command("worker")
@topology_option
@brokers_named(help="Kafka brokers, or `embedded` for one inside the process.")
@stage_option
@click.option(
    "--state-dir",
    envvar="INORDER_STATE_DIR",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("state"),
    help="Folder for the local state stores (state: rocksdb).",
)
@http_option
@click.option(
    "--take-over",
    metavar="TIME",
    help="Write to outputs that hold records of another application. Read the "
    "inputs from now on (`now`), or from a time such as "
    "2026-11-24T08:00:00Z.",
)
@stage_options
def command(
    options: StageOptions, names: tuple[str, ...], http: str, take_over: str | None
) -> None:
    """Run the named stages (default: all) until SIGTERM; exit 0 after a graceful stop.

    --redis replaces `redis:` of the file, for `state: redis`.
    """
    set_up("worker", quiet=options.quiet, verbose=options.verbose, style=options.log_style)
    topology = load(options.topology_path, options.redis)
    stages = choose(topology, names)
    reads = {topic for s in topology.stages if s.name in stages for topic in inputs_of(topology, s)}
    master_keys(topology, reads)  # This only checks the keys: the stages read them themselves.
    if topology.state == "redis":
        check_access(add_redis_password(topology.redis))
    if options.backfill is not None:  # A fault is reported here once, and not in each stage.
        Backfilled(options.backfill, topology, options.topology_path)
    settings = make_settings_reader(options.topology_path, options.redis)
    host, port = parse_listen_address("--http", http)
    token = read_http_token()
    if security(options.kafka_path) != PLAINTEXT and options.brokers == EMBEDDED:
        raise Refused("--brokers embedded uses PLAINTEXT; leave --kafka and its variables out")
    if CORE != COMPILED:
        log.info("%s", IN_PYTHON)
    if take_over is not None:
        _take_over(take_over, options, topology)
    with _run_brokers(options.brokers, topology) as servers:
        filled = replace(options, brokers=servers)
        commands = {stage: filled.command_line_for(stage) for stage in stages}
        if options.redis is not None:
            os.environ["INORDER_REDIS"] = options.redis
        export_token(token)
        stuck_after_s = topology.stuck_after_ns / NS_PER_S
        with refusing(HttpUnavailable), contextlib.ExitStack() as opened:
            # A port in use is reported before a stage starts.
            sockets = [opened.enter_context(each) for each in bind(host, port)]
            begun = opened.enter_context(_begin(commands, sockets))
            supervisor = Supervisor(
                *(commands, host, port, stuck_after_s, options.brokers_wait_s, token),
                *(begun, sockets, [stage.name for stage in topology.stages], settings),
            )
            code = asyncio.run(supervisor.run())
    sys.exit(code)


def _take_over(instant: str, options: StageOptions, topology: Topology) -> None:
    from aiokafka.errors import KafkaError

    from agents.process.stage_process import EXPECTED_FAILURES
    from agents.restore.take_over import take_over

    since_ns = time.time_ns() if instant == "now" else rfc3339.parse_ns(instant.encode())
    if since_ns is None:
        remedy = "write now, or a time like 2026-11-24T08:00:00Z"
        raise Refused(f"--take-over {instant}: is not a time; {remedy}")
    brokers = connect_brokers(options.brokers, security(options.kafka_path), options.brokers_wait_s)
    try:
        with refusing(*EXPECTED_FAILURES):
            asyncio.run(take_over(brokers, topology, since_ns // 10**6))
    except (KafkaError, TimeoutError) as failed:
        remedy = "take over with a single worker, and start it later without the option"
        raise Refused(f"--take-over {instant}: {failed!r}; {remedy}") from failed


def make_settings_reader(path: str, redis: str | None) -> Callable[[], str]:
    """Return a function for the page that returns the current topology file with all keys.

    Users and passwords in URLs are left out.
    """
    document = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    if redis is not None:
        document |= {"redis": WHO.sub("//", redis)}

    def text() -> str:
        return WHO.sub("//", reference.fill(document, make_reader(Path(path).parent)))

    return text


def choose(topology: Topology, names: tuple[str, ...]) -> list[str]:
    """Return the stages to run: the named ones, or all that have work."""
    known = [stage.name for stage in topology.stages]
    working = [stage.name for stage in topology.stages if has_work(topology, stage)]
    for name in names:
        if name not in known:
            raise Refused(f"--stage {name}: is not a stage; the topology has {', '.join(known)}")
        if name not in working:
            raise Refused(f"--stage {name}: it has no work without a query; leave it out")
    return list(dict.fromkeys(names)) or working


@contextlib.contextmanager
def _begin(
    commands: Mapping[str, Sequence[str]], sockets: Sequence[socket]
) -> Iterator[dict[str, Process]]:
    """Fork the processes of the stages if possible; otherwise the supervisor starts them."""
    if not can_fork():
        yield {}
        return
    import_module("cli.run.stage")
    with fork(commands, _run_stage, sockets) as stages:
        yield stages


def _run_stage(command: Sequence[str]) -> None:
    """Run the command of a stage as its own interpreter would, without the worker's log."""
    logging.getLogger().handlers.clear()
    main.main(command[len(PROGRAM) :], prog_name="inorder")


@contextlib.contextmanager
def _run_brokers(brokers: str, topology: Topology) -> Iterator[str]:
    """Yield the bootstrap servers; `embedded` starts a broker with the topics during the body."""
    if brokers != EMBEDDED:
        yield brokers
        return
    with EmbeddedBroker() as broker:
        broker.make_topics(topology)
        log.info("embedded broker at %s", broker.bootstrap)
        yield broker.bootstrap
