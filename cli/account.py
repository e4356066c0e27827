"""What a replay or a backfill tells at its end: what looks wrong, the account, the exit code."""

from __future__ import annotations

import click

from agents.exits import Exit
from cli.summary import Summary


def told_at_end(summary: Summary, *, as_json: bool) -> None:
    """On standard error. Ends the command by NOTHING_USABLE where no line could be read."""
    warn_of(summary)
    if (moved := summary.estimated()) is not None:
        click.echo(moved, err=True)
    click.echo(summary.json() if as_json else summary.table(), err=True)
    if summary.all_unread:
        raise SystemExit(Exit.NOTHING_USABLE)


def warn_of(summary: Summary, when: str = "") -> None:
    if (alarm := summary.alarm()) is not None:
        warn(when + alarm)


def warn(word: str) -> None:
    click.echo(f"WARNING: {word}", err=True)
