"""Write the pages that are made from code; `make docs-reference` runs this file.

The types of the topology file give docs/reference/topology.md, and the commands give cli.md. The
metrics of a worker, a sink and a sync server give metrics.md.
"""

from __future__ import annotations

import re
import sys
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

{NOTICE} `--help` of a command prints the same. Each option can also come from an environment
variable: `--brokers` from `INORDER_BROKERS`, and so on. The command line wins.
See [errors](errors.md) for exit codes.
"""
METRICS: Final = f"""\
# Metrics

{NOTICE} A worker answers at `/metrics`, in the text format of Prometheus. Times are in seconds.
Counters end in `_total`. [Monitor and alerts](../operate/alerts.md) says which of them to watch.
"""


def commands() -> str:
    """Return the page of all commands, in the order of the help."""
    parts = [COMMANDS]
    for path, command in _commands(main, "inorder"):
        context = click.Context(command, info_name=path, show_default=True)
        usage = " ".join(command.collect_usage_pieces(context))
        parts.append(f"\n## {path}\n\n```text\n{path} {usage}\n```\n\n{_text(command.help)}\n")
        options = [each for each in command.params if isinstance(each, click.Option)]
        records = filter(None, (each.get_help_record(context) for each in options))
        rows = [f"| `{name.replace('|', '¦')}` | {_text(help_)} |" for name, help_ in records]
        parts.append("\n| option | |\n| --- | --- |\n" + "\n".join(rows) + "\n")
    return "".join(parts)


def _commands(group: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(group, click.Group):
        yield path, group
        return
    context = click.Context(group)
    for name in group.list_commands(context):
        if (command := group.get_command(context, name)) is not None:
            yield from _commands(command, f"{path} {name}")


def _text(text: str | None) -> str:
    return " ".join((text or "").replace("\b", "").replace("|", "\\|").split())


def metrics() -> str:
    """Return the page of all metrics of a worker and of a sink."""
    worker, sink = CollectorRegistry(), CollectorRegistry()
    Metrics(worker, "merge")
    sink.register(SinkCollector(Counts()))
    return f"{METRICS}\n{_table(worker)}\n## A sink\n\n{_table(sink)}"


def _table(registry: CollectorRegistry) -> str:
    rows = [
        f"| `{each.name}{'_total' if each.type == 'counter' else ''}` | {each.type} |"
        f" {re.sub('[|]', ' ', each.documentation)} |"
        for each in sorted(registry.collect(), key=lambda each: each.name)
    ]
    return "| metric | kind | |\n| --- | --- | --- |\n" + "\n".join(rows) + "\n"


PAGES: Final = {"topology": topology_page.page, "cli": commands, "metrics": metrics}


if __name__ == "__main__":
    for stem, page in PAGES.items():
        (REFERENCE / f"{stem}.md").write_text(page(), encoding="utf-8")
