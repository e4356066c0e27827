"""Logs of the long-running commands: plain lines, or JSON, on standard error.

A line of JSON has `time` (RFC 3339, UTC), `level`, `of` (the command, or the stage),
`message`, and beside these what the line gives as `fields` of its record.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final

import click
import orjson

TEXT: Final = "text"
JSON: Final = "json"

log_option = click.option(
    "--log",
    "log_style",
    envvar="INORDER_LOG",
    type=click.Choice((TEXT, JSON)),
    default=TEXT,
    show_default=True,
    help="The log on standard error: lines to read, or a JSON object each.",
)
quiet_option = click.option(
    "--quiet", is_flag=True, envvar="INORDER_QUIET", help="Only tell what goes wrong."
)
verbose_option = click.option(
    "--verbose", is_flag=True, help="Tell more, with stack traces: for a report of a fault."
)


def set_up(name: str, *, quiet: bool = False, verbose: bool = False, style: str = TEXT) -> None:
    handler = logging.StreamHandler(sys.stderr)
    if style == JSON:
        handler.setFormatter(_Json(name))
    else:
        handler.setFormatter(logging.Formatter(f"%(asctime)s {name} %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING if quiet else logging.INFO)
    if verbose:
        logging.getLogger("agents").setLevel(logging.DEBUG)


class _Json(logging.Formatter):
    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "of": self._name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
