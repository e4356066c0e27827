"""`--json`: what a command found, as one object for programs.

A command whose standard output holds events or records writes it as the last line of standard
error; any other to standard output. What serves writes its log as JSON instead (`--log json`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def json_option(command: str) -> Callable[[Any], Any]:
    """The option of the command that is so called in variables; the parameter is `as_json`."""
    variable = f"INORDER_{command}_JSON"
    words = "Print JSON, for programs."
    return click.option("--json", "as_json", is_flag=True, envvar=variable, help=words)
