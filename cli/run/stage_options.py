"""Defines the options that a worker passes to the processes of its stages."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from cli.instance import NONE, instance_option, session_option
from cli.kafka_options import brokers_wait_option
from cli.logs import TEXT, log_option, quiet_option, verbose_option
from cli.option_group import field_given_by, option_group, options_of
from cli.program import PROGRAM
from cli.run.from_backfill import OPTION, from_backfill_option
from cli.topology_file import kafka_option, redis_named


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOptions:
    """The options of a worker and its stages.

    `redis` may have a secret, so a stage gets it in its environment and not as an argument.
    """

    topology_path: str
    brokers: str
    state_dir: Path
    backfill: str | None = field_given_by(from_backfill_option)
    redis: str | None = field_given_by(redis_named())
    kafka_path: str | None = field_given_by(kafka_option)
    brokers_wait_s: float = field_given_by(brokers_wait_option)
    instance: str | None = field_given_by(instance_option)
    session_s: float = field_given_by(session_option, 6.0)
    log_style: str = field_given_by(log_option, TEXT)
    quiet: bool = field_given_by(quiet_option, default=False)
    verbose: bool = field_given_by(verbose_option, default=False)

    def command_line_for(self, stage: str) -> list[str]:
        """Return the command line that runs this stage as a child of this process."""
        return [
            *(*PROGRAM, "stage"),
            *("--topology", self.topology_path, "--brokers", self.brokers, "--name", stage),
            *("--state-dir", str(self.state_dir), "--parent", str(os.getpid())),
            *("--brokers-wait", f"{self.brokers_wait_s:.9f}s"),
            *(["--kafka", self.kafka_path] if self.kafka_path is not None else []),
            *("--instance", self.instance or NONE, "--session", f"{self.session_s:.9f}s"),
            *("--log", self.log_style),
            *(["--quiet"] if self.quiet else []),
            *(["--verbose"] if self.verbose else []),
            *([OPTION, self.backfill] if self.backfill is not None else []),
        ]


stage_options = option_group("options", StageOptions, options_of(StageOptions))
"""All options except topology, brokers and state folder, which each command defines itself."""
