"""Examples: the log of a command, as lines to read and as JSON."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

TELLS = (
    "import logging; from cli.logs import set_up; set_up('reorder', {options});"
    "log = logging.getLogger('agents.stage_log');"
    "log.debug('closely');"
    "log.info('owns %s', 'raw/0', extra={{'fields': {{'partitions': ['raw/0']}}}});"
    "log.warning('not ready')"
)


def said(options: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", TELLS.format(options=options)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == ""
    return done.stderr.splitlines()


@pytest.mark.parametrize(
    ("options", "levels"),
    [
        ("", ["INFO", "WARNING"]),
        ("quiet=True", ["WARNING"]),
        ("verbose=True", ["DEBUG", "INFO", "WARNING"]),
    ],
)
def test_lines_to_read(options: str, levels: list[str]) -> None:
    assert [line.split()[2:4] for line in said(options)] == [["reorder", each] for each in levels]


def test_lines_of_json_have_the_values_too() -> None:
    owns, unready = (json.loads(line) for line in said("style='json'"))
    assert owns.pop("time").endswith("+00:00")
    assert owns == {
        "level": "INFO",
        "of": "reorder",
        "message": "owns raw/0",
        "partitions": ["raw/0"],
    }
    assert (unready["level"], unready["message"]) == ("WARNING", "not ready")
