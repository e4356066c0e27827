"""Examples: a stage parses the options that its worker passes, apart from secrets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from cli.instance import NONE
from cli.program import PROGRAM
from cli.run.stage_options import StageOptions, stage_options

PLAIN = StageOptions(
    topology_path="t.yaml", brokers="b:9092", state_dir=Path("s"), brokers_wait_s=2
)
ALL = replace(
    PLAIN,
    backfill="history",
    kafka_path="kafka.properties",
    brokers_wait_s=1.5,
    instance="one",
    session_s=2.5,
    log_style="json",
    quiet=True,
)


def understood(words: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}

    @click.command()
    @click.option("--topology", "topology_path")
    @click.option("--brokers")
    @click.option("--state-dir", type=click.Path(path_type=Path))
    @click.option("--name")
    @click.option("--parent")
    @stage_options
    def command(**values: Any) -> None:
        found.update(values)

    command.main([*words[len(PROGRAM) + 1 :]], standalone_mode=False)
    return found


def test_stage_parses_all_options() -> None:
    for options in (PLAIN, ALL, replace(PLAIN, verbose=True)):
        found = understood(options.command_line_for("merge"))
        assert found["name"] == "merge"
        assert found["options"] == options


def test_redis_url_is_not_an_argument() -> None:
    url = "redis://me:secret@r:6379"
    assert replace(ALL, redis=url).command_line_for("merge") == ALL.command_line_for("merge")


def test_missing_instance_is_explicit() -> None:
    words = PLAIN.command_line_for("merge")
    assert words[words.index("--instance") + 1] == NONE
