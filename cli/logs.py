"""Sets up the logs of long-running commands, as plain lines or JSON, on standard error.

A line of JSON has `time` (RFC 3339, UTC), `level`, `of` (the command or the stage), `message`, and
the `fields` of its record. After `set_up`, every message of the command on standard error is such a
line. That includes the reason for exit code 2 (`has_log`), and warnings of Python or a library.

Plain lines escape characters that are not printable (`cli.printable`), so the name of a source
cannot begin a new line. Lines that do not begin with a time, such as those of a stack trace
or a long reason, are indented.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final

import click
import orjson
from click.core import ParameterSource

from cli.printable import escape_unprintable

TEXT: Final = "text"
JSON: Final = "json"

log_option = click.option(
    "--log",
    "log_style",
    envvar="INORDER_LOG",
    type=click.Choice((TEXT, JSON)),
    default=TEXT,
    help="Form of the log on standard error: plain lines, or one JSON object each.",
)
IN_LINES: Final = frozenset({"inorder", "py.warnings"})
"""Loggers whose messages may have several lines: reasons why a command ends, and warnings."""

SET_IN: Final = "\n  "
CONTRARY: Final = {"quiet": "verbose", "verbose": "quiet"}


def _refuse_both(context: click.Context, parameter: click.Parameter, value: bool) -> bool:
    """Refuse both options at once; the command line takes precedence over the environment."""
    assert parameter.name is not None
    other = CONTRARY[parameter.name]
    if not (value and context.params.get(other)):
        return value
    said_here = context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    if said_here or context.get_parameter_source(other) is not ParameterSource.COMMANDLINE:
        raise click.UsageError("--quiet and --verbose contradict each other; leave one out")
    return False


quiet_option = click.option(
    "--quiet",
    is_flag=True,
    envvar="INORDER_QUIET",
    callback=_refuse_both,
    help="Log problems only.",
)
verbose_option = click.option(
    "--verbose",
    is_flag=True,
    callback=_refuse_both,
    help="Log more, with stack traces, to report a fault.",
)


def set_up(name: str, *, quiet: bool = False, verbose: bool = False, style: str = TEXT) -> None:
    """Set up logging until the running command ends."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json(name) if style == JSON else _Text(name))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.WARNING if quiet else logging.INFO)
    logging.captureWarnings(capture=True)
    if verbose:
        logging.getLogger("agents").setLevel(logging.DEBUG)
    context = click.get_current_context(silent=True)
    if context is not None:
        top = context.find_root()
        top.meta[__name__] = True
        top.call_on_close(lambda: root.removeHandler(handler))


def has_log(context: click.Context) -> bool:
    """Return whether the command has a log, which then reports why the command ends."""
    return bool(context.find_root().meta.get(__name__))


class _Named(logging.Formatter):
    """A formatter that puts the name of a command or a stage into each line."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name


class _Text(_Named):
    def format(self, record: logging.LogRecord) -> str:
        said = record.getMessage()
        lines = said.rstrip().split("\n") if record.name in IN_LINES else [said]
        if record.exc_info:
            lines += self.formatException(record.exc_info).split("\n")
        begin = f"{self.formatTime(record)} {self._name} {record.levelname} "
        return begin + SET_IN.join(map(escape_unprintable, lines))


class _Json(_Named):
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
