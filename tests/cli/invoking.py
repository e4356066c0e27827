"""What the command line's tests share: a command run in this process, and its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner

from cli.main import main

TOPOLOGY = "streams: {default: {input: raw}}\n"


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def summary(self) -> dict[str, Any]:
        """The last line of standard error."""
        found: dict[str, Any] = json.loads(self.err.splitlines()[-1])
        return found


def inorder(
    *arguments: str | Path, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> Answer:
    """`inorder` with these arguments; no variable of the caller's environment counts."""
    clean = {"INORDER_TOPOLOGY": None, "INORDER_BROKERS": None}
    runner = CliRunner(env={**clean, **(env or {})})
    result = runner.invoke(main, [str(each) for each in arguments], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Answer(result.exit_code, result.stdout, result.stderr)
