"""Write the pages that are made from code; `make docs-reference` runs this file.

The types of the topology file give docs/reference/topology.md, and the commands give cli.md. The
metrics of a worker, a sink and a sync server give metrics.md.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
from prometheus_client import CollectorRegistry

REFERENCE: Final = Path(__file__).parent / "reference"
sys.path.insert(0, str(REFERENCE.parents[1]))

from agents.watch.metrics.worker import Metrics  # noqa: E402
from cli.main import main  # noqa: E402
from docs import topology_page  # noqa: E402
from sinks.counts import Counts, SinkCollector  # noqa: E402

NOTICE: Final = "`make docs-reference` generates this page; do not edit it."
COMMANDS: Final = f"""\
# Commands

{NOTICE} The last section explains the
[options of several commands](#options-of-several-commands). Environment variables set options, too:
`INORDER_REPLAY_SHOW` that of one command, `INORDER_BROKERS` a shared one. The command line wins.
[Errors](errors.md) has the exit codes."""
METRICS: Final = f"""\
# Metrics

{NOTICE} A worker answers at `/metrics`, in the text format of Prometheus. Times are in seconds.
Counters end in `_total`, histograms in `_bucket`, `_sum` and `_count`, and all others are gauges.
[Monitor and alerts](../operate/alerts.md) says which of them to watch.
"""
ENDS: Final = {"counter": "_total", "histogram": "_bucket"}


def commands() -> str:
    """Return the page of all commands, in the order of the help."""
    pages = {path: _options(each, path) for path, each in _commands(main, "inorder")}
    times = Counter(entry for options in pages.values() for entry in options)
    shared = sorted(entry for entry in times if times[entry] > 1)
    parts = [COMMANDS]
    for path, command in _commands(main, "inorder"):
        required_first = sorted(pages[path].values(), key=lambda each: each[0] == "[")
        _, *arguments = command.collect_usage_pieces(click.Context(command))
        usage = " ".join(each.replace(" ", "\0") for each in (path, *required_first, *arguments))
        usage = textwrap.fill(usage, 100, subsequent_indent="    ", break_on_hyphens=False)
        usage = usage.replace("\0", " ")
        parts.append(f"\n## {path}\n\n```text\n{usage}\n```\n\n{_text(command.help)}")
        own = [entry for entry in pages[path] if times[entry] == 1]
        parts += ["", *own] if own else []
    return "\n".join([*parts, "\n## Options of several commands\n", *shared, ""])


def _options(command: click.Command, path: str) -> dict[str, str]:
    """Return the part of the usage for each option, by its entry in a list."""
    context = click.Context(command, info_name=path, show_default=True)
    options = {}
    for each in command.params:
        if record := each.get_help_record(context):
            name = re.sub("(?<=[A-Z]) RANGE", "", record[0])
            entry = f"- `{name}`: {_text(record[1]).removesuffix('[required]').strip()}"
            options[entry] = name if each.required else f"[{name}]"
    return options


def _commands(group: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(group, click.Group):
        yield path, group
        return
    context = click.Context(group)
    for name in group.list_commands(context):
        if (command := group.get_command(context, name)) is not None:
            yield from _commands(command, f"{path} {name}")


def _text(text: str | None) -> str:
    return " ".join((text or "").replace("\b", "").split())


def metrics() -> str:
    """Return the page of all metrics of a worker and of a sink."""
    worker, sink = CollectorRegistry(), CollectorRegistry()
    Metrics(worker, "merge")
    sink.register(SinkCollector(Counts()))
    return f"{METRICS}\n{_table(worker)}\n## A sink\n\n{_table(sink)}"


def _table(registry: CollectorRegistry) -> str:
    found = sorted(registry.collect(), key=lambda each: each.name)
    rows = (f"| `{of.name}{ENDS.get(of.type, '')}` | {of.documentation} |" for of in found)
    return "\n".join(("| metric | |", "| --- | --- |", *rows, ""))


PAGES: Final = {"topology": topology_page.page, "cli": commands, "metrics": metrics}


if __name__ == "__main__":
    for stem, page in PAGES.items():
        (REFERENCE / f"{stem}.md").write_text(page(), encoding="utf-8")
