"""`inorder stage` is the process of one stage, which `inorder worker` starts.

It writes the address of its HTTP server to the descriptor that `--announce-fd` names. Its process
name (`ps -o comm`, `top`) is `stage NAME`, forked or spawned. The system cuts the name to 15 bytes
(`stage reorder+m`); `/explain` has the whole name.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click

from agents.exits import Exit
from agents.kafka.stage_topics import inputs_of
from agents.process.child_process import ANNOUNCE, announce, end_with_parent
from agents.process.memory import raise_kill_priority
from agents.process.stage_process import EXPECTED_FAILURES, ProcessSettings, run_stage
from cli.http_token import read_http_token
from cli.kafka_options import security
from cli.logs import set_up
from cli.redis_place import add_redis_password
from cli.run.from_backfill import Backfilled
from cli.run.stage_options import StageOptions, stage_options
from cli.signing import master_keys
from cli.topology_file import Refused, brokers_option, load, topology_option

log = logging.getLogger("inorder.stage")

OWN_NAME: Final = Path("/proc/self/comm")


@click.command("stage", hidden=True)
@topology_option
@brokers_option
@click.option("--name", required=True)
@click.option("--state-dir", required=True, type=click.Path(path_type=Path))
@click.option("--parent", type=int)
@click.option(ANNOUNCE, "announce_fd", type=int)
@stage_options
def command(options: StageOptions, name: str, parent: int | None, announce_fd: int | None) -> None:
    """Run one stage until SIGTERM."""
    with suppress(OSError):
        OWN_NAME.write_text(f"stage {name}")
    set_up(name, quiet=options.quiet, verbose=options.verbose, style=options.log_style)
    if parent is not None and not end_with_parent(parent):
        log.error("the supervisor has ended")
        sys.exit(Exit.DONE)
    if parent is not None:
        raise_kill_priority()
    topology = load(options.topology_path, options.redis)
    stage = next(stage for stage in topology.stages if stage.name == name)
    access = security(options.kafka_path)
    if topology.state == "redis":
        # If the extra is not installed, this reports it at the start.
        import_module("agents.state.stores.redis")
        topology = topology.model_copy(update={"redis": add_redis_password(topology.redis)})
    masters = master_keys(topology, inputs_of(topology, stage))
    backfill = options.backfill
    announced = None if announce_fd is None else partial(announce, announce_fd)
    settings = ProcessSettings(
        *(options.brokers, options.state_dir, access, options.brokers_wait_s, parent, announced),
        *(options.instance, options.session_s, masters, read_http_token()),
        None if backfill is None else Backfilled(backfill, topology, options.topology_path),
    )
    try:
        asyncio.run(_run_and_exit(run_stage(topology, stage, settings)))
    except EXPECTED_FAILURES as refused:
        raise Refused(str(refused)) from refused
    except Exception as failed:
        log.error("%s: %s", type(failed).__name__, failed, exc_info=options.verbose)
        sys.exit(Exit.FAILED)


async def _run_and_exit(stage: Coroutine[Any, Any, None]) -> None:
    """Run the stage and end the process at once, because everything is committed by then.

    A thread of Faust may hang if the stage is stopped while it starts. Neither that thread nor code
    that waits for it may keep the process alive.
    """
    await stage
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)
