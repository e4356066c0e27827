"""Run commands of `inorder` in this process, and check their answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import click
from click.testing import CliRunner

from cli.main import HIDDEN, main

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
        """Return the last line of standard error."""
        found: dict[str, Any] = json.loads(self.err.splitlines()[-1])
        return found

    @property
    def last(self) -> dict[str, Any]:
        """Return the last line of standard output."""
        found: dict[str, Any] = json.loads(self.out.splitlines()[-1])
        return found

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the lines of one kind."""
        return [line for line in self.lines if line["kind"] == kind]

    def well(self, *words: str) -> Self:
        """Assert that the command succeeded and printed these words; return the answer itself."""
        assert self.code == 0, self.err
        assert [each for each in words if each not in self.out + self.err] == [], self
        return self

    def refused(self, *words: str, code: int = 2) -> Self:
        """Assert that the command was refused with these words and printed no output; return the
        answer itself.
        """
        assert (self.code, self.out) == (code, ""), self
        assert [each for each in words if each not in self.err] == [], self.err
        assert "Traceback" not in self.err
        return self


def inorder(
    *arguments: str | Path, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> Answer:
    """Run `inorder` with these arguments, without the variables of the caller's environment."""
    clean = {"INORDER_TOPOLOGY": None, "INORDER_BROKERS": None}
    runner = CliRunner(env={**clean, **(env or {})})
    result = runner.invoke(main, [str(each) for each in arguments], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Answer(result.exit_code, result.stdout, result.stderr)


def text_file(path: Path, text: str) -> Path:
    """Write the text, and return its path."""
    path.write_text(text, encoding="utf-8")
    return path


def json_lines(path: Path, rows: Iterable[object]) -> Path:
    """Write a line of JSON for each row, and return the path."""
    return text_file(path, "".join(f"{json.dumps(row)}\n" for row in rows))


def commands(
    group: click.Group = main, words: tuple[str, ...] = ()
) -> list[tuple[tuple[str, ...], click.Command]]:
    """Return each command that is no group, including hidden ones, with the words that name it."""
    hidden = HIDDEN if group is main else ()
    found: list[tuple[tuple[str, ...], click.Command]] = []
    for name in [*group.list_commands(click.Context(group)), *hidden]:
        command = group.get_command(click.Context(group), name)
        assert command is not None
        here = (*words, name)
        found += commands(command, here) if isinstance(command, click.Group) else [(here, command)]
    return found


def replay_of(folder: Path, topology: str, rows: Iterable[object], *options: str) -> Answer:
    """Return the answer of `inorder replay` for these rows and this topology."""
    file = text_file(folder / "topology.yaml", topology)
    events = json_lines(folder / "events.jsonl", rows)
    return inorder("replay", "--topology", file, "--json", *options, events)
