"""Options that a worker shares with its stages' processes, and how it passes them on."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from cli.instance import NONE, instance_option, session_option
from cli.kafka_options import brokers_wait_option
from cli.logs import TEXT, log_option, quiet_option, verbose_option
from cli.program import PROGRAM
from cli.run.from_backfill import OPTION, from_backfill_option
from cli.run.otlp import USUAL, otlp_options
from cli.topology_file import kafka_option, redis_option


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOptions:
    """`redis` may hold a secret: a stage gets it in its environment, not as an argument."""

    topology_path: str
    brokers: str
    state_dir: Path
    backfill: str | None = None
    redis: str | None = None
    kafka_path: str | None = None
    brokers_wait_s: float
    instance: str | None = None
    session_s: float = 6.0
    otlp: str | None = None
    otlp_one_in: int = USUAL
    log_style: str = TEXT
    quiet: bool = False
    verbose: bool = False

    def words_for(self, stage: str) -> list[str]:
        """The command that runs this stage as a child of this process."""
        return [
            *(*PROGRAM, "stage"),
            *("--topology", self.topology_path, "--brokers", self.brokers, "--name", stage),
            *("--state-dir", str(self.state_dir), "--parent", str(os.getpid())),
            *("--brokers-wait", f"{self.brokers_wait_s:.9f}s"),
            *(["--kafka", self.kafka_path] if self.kafka_path is not None else []),
            *("--instance", self.instance or NONE, "--session", f"{self.session_s:.9f}s"),
            *(["--otlp", self.otlp] if self.otlp is not None else []),
            *("--otlp-one-in", str(self.otlp_one_in)),
            *("--log", self.log_style),
            *(["--quiet"] if self.quiet else []),
            *(["--verbose"] if self.verbose else []),
            *([OPTION, self.backfill] if self.backfill is not None else []),
        ]


def stage_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds all of them but topology, brokers and state folder, of which each command has its own;
    the command is called with all of them as one: `options`."""

    @functools.wraps(command)
    def called(**values: Any) -> None:
        own = {field.name: values.pop(field.name) for field in fields(StageOptions)}
        command(options=StageOptions(**own), **values)

    added: Callable[..., None] = called
    for option in (
        *(verbose_option, quiet_option, log_option, otlp_options, session_option),
        *(instance_option, brokers_wait_option, kafka_option, redis_option, from_backfill_option),
    ):
        added = option(added)
    return added
