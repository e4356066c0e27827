"""Prints the summary of a replay or a backfill, for people or programs, at the end of the command.

Warnings come first, then the account. The exit code shows whether anything could be read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from heapq import nsmallest
from typing import Any, Final

import click
import orjson

from agents.exits import Exit
from cli.printable import escape_unprintable
from cli.topology_file import warn
from recordings.audit.verdicts import format_in_one_unit, format_short
from recordings.summary import COUNTED, Summary

MAX_ROWS: Final = 5
"""The maximum number of sources in the text, the worst ones; the JSON has all sources."""
BAD: Final = ("late", "duplicate", "dead", "held", "gaps")

OF_RESULTS: Final = (
    ("emit", "emitted"),
    ("update", "updates"),
    ("retract", "retracted"),
    ("uncertain", "uncertain"),
    ("overflow", "left out because of a bound"),
)
"""The words for the counts of a query's results, in this order."""

MAX_REASONS: Final = 5
NS_PER_MS: Final = 1e6
NS_PER_S: Final = 1e9


def print_summary(summary: Summary, *, as_json: bool) -> None:
    """Print the summary to standard error; exit with NOTHING_USABLE if no line could be read."""
    warn_of_alarm(summary)
    if (moved := describe_moved_clocks(summary)) is not None:
        click.echo(moved, err=True)
    if (open_end := summary.open_end()) is not None:
        click.echo(open_end, err=True)
    account = summary.document()
    said = summary.find_alarm() or ""
    if as_json:
        text = orjson.dumps(account).decode()
    else:
        text = table(account, said, follows_records=_shares_output())
    click.echo(text, err=True)
    if summary.is_unreadable:
        raise SystemExit(Exit.NOTHING_USABLE)


def _shares_output() -> bool:
    """Return whether both outputs are one file or pipe, in which the summary follows the records.

    A terminal does not count, because records scroll away there.
    """
    try:
        return os.path.sameopenfile(1, 2) and not os.isatty(2)
    except OSError:
        return False


def warn_of_alarm(summary: Summary, when: str = "") -> None:
    if (alarm := summary.find_alarm()) is not None:
        warn(when + alarm)


def describe_moved_clocks(summary: Summary) -> str | None:
    """Return a sentence about clocks that were corrected by arrivals only, or not checked at all.

    The result is None if there are no such clocks.
    """
    if summary.takes_stamps:
        return (
            "clock: no line has an arrival time (`arrival`), so clocks cannot be checked:"
            " timestamps are used unchanged (as with unsynced: trust); if a clock is known to"
            " be wrong, declare its offset by a line like"
            ' {"clock": "SOURCE", "at": 0, "offset": NS, "error": NS}'
        ) + _describe_late(summary)
    if not summary.was_moved:
        return None
    moved = summary.moved
    were = "was" if moved["sources"] == 1 else "were"
    events = f", and {moved['events']:,} single events" if moved["events"] else ""
    return (
        f"clock: {moved['sources']:,} of {moved['known']:,} sources {were} corrected by up to"
        f" {format_short(moved['by_ns'])}{events}, because arrivals showed wrong clocks (unsynced:"
        " estimate); if timestamps are right, as in old data, write clock: {unsynced: trust}"
    )


def _describe_late(summary: Summary) -> str:
    late = summary.totals()["late"]
    if not late:
        return ""
    return (
        f"; {late:,} events are late, because lines before them have later timestamps: to put"
        " them in order, write merge: {max_wait: DURATION, idle_after: DURATION}, both longer"
        " than the difference"
    )


def table(account: Mapping[str, Any], alarm: str = "", *, follows_records: bool = False) -> str:
    """Return the account as text: the worst sources, totals, waits, results and dead letters.

    A detail that the printed `alarm` has is not repeated, nor that of a single dead letter if the
    text `follows_records`.
    """
    # `rich` is imported here because an account in JSON does not need it.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    balance = Table(title="balance: in = event + late + duplicate + dead + held")
    balance.add_column("source")
    for name in COUNTED:
        balance.add_column(name, justify="right")
    rows = account["sources"]
    worst = nsmallest(MAX_ROWS, rows, lambda name: (-sum(rows[name][bad] for bad in BAD), name))
    for source in worst:
        balance.add_row(
            Text(escape_unprintable(source)), *(str(rows[source][name]) for name in COUNTED)
        )
    if len(rows) > MAX_ROWS:
        balance.add_row(f"… {len(rows) - MAX_ROWS} more", *("" for _ in COUNTED))
    balance.add_section()
    balance.add_row("all", *(str(account[name]) for name in COUNTED))
    console = Console(width=100)
    with console.capture() as capture:
        console.print(balance)
        wait = account["wait_ms"]
        amounts, unit = format_in_one_unit([NS_PER_MS * amount for amount in wait.values()])
        waits = ", ".join(f"{name} {text}" for name, text in zip(wait, amounts, strict=True))
        console.print(f"waits: {waits} {unit}", highlight=False)
        console.print(
            f"the replay took {format_short(NS_PER_S * account['seconds'])}", highlight=False
        )
        if causes := account.get("late_by_cause"):
            listed = ", ".join(f"{cause} {n}" for cause, n in causes.items())
            console.print(f"late by cause: {listed}", highlight=False, soft_wrap=True)
        unusable = (escape_unprintable(each["text"]) for each in account.get("unusable", ()))
        for line in (
            *_format_results(account),
            *_format_unmet(account),
            *unusable,
            *_format_dead(account, alarm, follows_records),
        ):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        for what, count in account.get("left_out", {}).items():
            console.print(f"left out by queries: {what}: {count}", highlight=False)
    return capture.get()


def _format_results(account: Mapping[str, Any]) -> Iterator[str]:
    for query, counts in account.get("results", {}).items():
        parts = (f"{counts[key]:,} {word}" for key, word in OF_RESULTS if counts.get(key))
        said = ", ".join(parts)
        stand = counts["stand"]
        results = f"{stand:,} current result{'' if stand == 1 else 's'}"
        yield f"query {query}: {results}" + (f" ({said})" if said else "")


def _format_unmet(account: Mapping[str, Any]) -> Iterator[str]:
    for query, words in sorted(account.get("unmet", {}).items()):
        if words:
            yield from (f"query {query}: {escape_unprintable(word)}" for word in words)
        else:
            yield f"query {query}: no results, though all types and fields it names were there"


def _format_dead(account: Mapping[str, Any], alarm: str, follows_records: bool) -> Iterator[str]:
    reasons = list(account.get("dead_reasons", {}).items())
    for reason, dead in reasons[:MAX_REASONS]:
        detail = "see the warning above" if dead["detail"] in alarm else dead["detail"]
        if follows_records and account["dead"] == 1:
            detail = "see its record above"
        yield f"dead: {dead['count']:,} {reason}; first in line {dead['line']}: {detail}"
    if len(reasons) > MAX_REASONS:
        yield f"dead: {len(reasons) - MAX_REASONS} more reasons; `--json` has them all"
