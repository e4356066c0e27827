"""`inorder worker`: run the stages of a topology until SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from agents.arrangement import BUILT
from agents.http import HttpUnavailable, address
from agents.supervisor import Supervisor
from cli.logs import set_up
from cli.topology_file import (
    EMBEDDED,
    Refused,
    brokers_or_embedded_option,
    load,
    redis_option,
    topology_option,
)
from infra.embedded import EmbeddedBroker
from topology.description import Topology

NS_PER_S = 1_000_000_000


@click.command("worker")
@topology_option
@brokers_or_embedded_option
@click.option(
    "--stage",
    "names",
    multiple=True,
    envvar="INORDER_STAGE",
    help="Run only this stage (repeatable).",
)
@click.option(
    "--state-dir",
    envvar="INORDER_STATE_DIR",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("state"),
    show_default=True,
    help="Where local copies of the state are kept (state: rocksdb).",
)
@click.option(
    "--http",
    envvar="INORDER_HTTP",
    metavar="HOST:PORT",
    default="127.0.0.1:0",
    help="Default: a free port.",
)
@redis_option
@click.option("--verbose", is_flag=True, help="Also tell what goes well.")
def command(
    topology_path: str,
    brokers: str,
    names: tuple[str, ...],
    state_dir: Path,
    http: str,
    redis: str | None,
    verbose: bool,
) -> None:
    """Run the named stages (default: all) until SIGTERM; exit 0 after a graceful stop."""
    set_up("worker", verbose=True)
    topology = load(topology_path, redis)
    stages = chosen(topology, names)
    try:
        host, port = address(http)
    except ValueError as error:
        raise Refused(f"--http {http}: {error}") from error
    with _brokers(brokers) as servers:
        commands = {
            stage: stage_command(topology_path, servers, stage, state_dir, verbose)
            for stage in stages
        }
        if redis is not None:
            os.environ["INORDER_REDIS"] = redis  # to the stages, and not on their command line
        try:
            stuck_after_s = topology.stuck_after_ns / NS_PER_S
            code = asyncio.run(Supervisor(commands, host, port, stuck_after_s).run())
        except HttpUnavailable as error:
            raise Refused(str(error)) from error
    sys.exit(code)


def chosen(topology: Topology, names: tuple[str, ...]) -> list[str]:
    """The stages to run: those named, or all that this version has and that have work."""
    known = [stage.name for stage in topology.stages]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Refused(f"--stage {unknown[0]}: the topology has {', '.join(known)}")
    built = [stage.name for stage in topology.stages if stage.operators[0] in BUILT]
    idle = [name for name in names if name not in built]
    if idle:
        raise Refused(f"--stage {idle[0]}: it has no work in this version; leave it out")
    if names:
        return list(dict.fromkeys(names))
    return built


def stage_command(
    topology_path: str, servers: str, stage: str, state_dir: Path, verbose: bool
) -> list[str]:
    return [
        *(sys.executable, "-m", "cli", "stage"),
        *("--topology", topology_path, "--brokers", servers, "--name", stage),
        *("--state-dir", str(state_dir), "--parent", str(os.getpid())),
        *(["--verbose"] if verbose else []),
    ]


@contextlib.contextmanager
def _brokers(brokers: str) -> Iterator[str]:
    """The servers; `embedded` starts a broker that lives as long as the worker."""
    if brokers != EMBEDDED:
        yield brokers
        return
    with EmbeddedBroker() as broker:
        click.echo(f"embedded broker at {broker.bootstrap}", err=True)
        yield broker.bootstrap
