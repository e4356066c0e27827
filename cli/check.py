"""`inorder check`: is this topology file sound, and what would run?"""

from __future__ import annotations

import click
from rich.console import Console
from rich.tree import Tree

from agents.topics import declared
from cli.topology_file import load
from topology.description import QueryConfig, Topology
from topology.pattern.check import check


@click.command("check")
@click.argument("path", metavar="FILE")
def command(path: str) -> None:
    """Check the topology FILE; exit 0 if it is sound, 2 with every problem if not."""
    topology = load(path)
    Console().print(drawn(path, topology))


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
