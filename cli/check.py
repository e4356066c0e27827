"""`inorder check`: is this topology file sound, and what would run?"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click
import orjson
import yaml
from rich.console import Console
from rich.tree import Tree

from agents.topics import declared
from cli.own import bringing
from cli.topology_file import Refused, load
from topology.description import QueryConfig, Topology, reference
from topology.pattern.check import check

SMALLEST: Final[dict[str, Any]] = {"streams": {"default": {}}}


@click.command("check")
@click.option("--schema", is_flag=True, help="Print the JSON schema of such files, for editors.")
@click.option("--defaults", is_flag=True, help="Print the file with every key filled in.")
@click.argument("path", metavar="[FILE]", required=False)
def command(schema: bool, defaults: bool, path: str | None) -> None:
    """Check the topology FILE; exit 0 if it is sound, 2 with every problem if not."""
    if schema:
        text = orjson.dumps(reference.schema(), option=orjson.OPT_INDENT_2).decode()
        click.echo(text)
    elif defaults:
        click.echo(filled(path), nl=False)
    elif path is None:
        raise Refused("FILE is missing; give a topology file, or --schema, or --defaults")
    else:
        Console().print(drawn(path, load(path)))


def filled(path: str | None) -> str:
    """The file, or the smallest there is, with every key that may stand beside what it says."""
    if path is None:
        return reference.filled(SMALLEST)
    load(path)  # so that what is wrong is told with its line
    document = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    return reference.filled(document, bringing(Path(path).parent))


def drawn(path: str, topology: Topology) -> Tree:
    """What the file describes: streams, stages, and the topics it needs."""
    tree = Tree(f"{path}: sound")
    streams = tree.add("streams")
    for name, stream in topology.streams.items():
        waits = f"rule {stream.reorder.rule}, late {stream.reorder.late}"
        streams.add(f"{name}: {stream.input} -> {stream.output} ({waits})")
    stages = tree.add("stages")
    for stage in topology.stages:
        stages.add(stage.name)
    if topology.queries:
        queries = tree.add("queries")
        for name, query in topology.queries.items():
            entry = queries.add(f"{name}: {query.kind}")
            if all(query.kind not in stage.operators for stage in topology.stages):
                entry.add(f"no stage runs it: add {query.kind} to `stages`")
            for warning in warnings(query, topology):
                entry.add(warning)
    topics = tree.add("topics")
    for spec in declared(topology):
        topics.add(f"{spec.name}: {spec.partitions} partitions")
    return tree


def warnings(query: QueryConfig, topology: Topology) -> list[str]:
    if query.pattern is None:
        return []
    found = check(query.pattern, functions=topology.own.functions)
    return [f"{warning.code}: {warning.message}" for warning in found]
