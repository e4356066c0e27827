"""Defines the `--json` option, with which a command prints its result as one object for programs.

A command that writes events or records to standard output prints the object as the last line of
standard error. Other commands print it to standard output. Long-running commands have `--log json`
instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def json_option(command: str) -> Callable[[Any], Any]:
    """Return the decorator for `--json` (`INORDER_<command>_JSON`), which sets `as_json`."""
    variable = f"INORDER_{command}_JSON"
    words = "Print JSON, for programs."
    return click.option("--json", "as_json", is_flag=True, envvar=variable, help=words)
