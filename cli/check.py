"""`inorder check`: is this topology file sound, and what would run?"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click
import orjson
import yaml
from rich.console import Console
from rich.tree import Tree

from agents.kafka.declared import declared
from cli.as_json import json_option
from cli.topology_file import Refused, load
from cli.user_functions.load import bringing
from cli.user_functions.read import reading
from topology.config import QueryConfig, Topology, TopologyError, reference
from topology.pattern.language.check import check
from topology.pattern.tree.syntax import Call, Query
from topology.pattern.tree.walk import expressions, walk

SMALLEST: Final[dict[str, Any]] = {"streams": {"default": {}}}


@click.command("check")
@click.option("--schema", is_flag=True, help="Print the JSON schema of such files, for editors.")
@click.option("--defaults", is_flag=True, help="Print the file with every key filled in.")
@click.option(
    "--trust",
    is_flag=True,
    help="Run the Python file that `functions:` names, as a worker does; else it is read only.",
)
@json_option("CHECK", "For programs: what was found, on standard output.")
@click.argument("path", metavar="[FILE]", required=False)
def command(schema: bool, defaults: bool, trust: bool, as_json: bool, path: str | None) -> None:
    """Check the topology FILE; exit 0 if it is sound, 2 with every problem if not."""
    if schema:
        text = orjson.dumps(reference.schema(), option=orjson.OPT_INDENT_2).decode()
        click.echo(text)
    elif defaults:
        click.echo(filled(path, trust), nl=False)
    elif path is None:
        raise Refused("FILE is missing; give a topology file, or --schema, or --defaults")
    elif as_json:
        click.echo(orjson.dumps(found(path, trust)))
    else:
        Console().print(drawn(path, load(path, runs_functions=trust)))


def filled(path: str | None, trust: bool = False) -> str:
    """The file, or the smallest there is, with every key that may stand beside what it says."""
    if path is None:
        return reference.filled(SMALLEST)
    load(path, runs_functions=trust)  # so that what is wrong is told with its line
    document = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    return reference.filled(document, (bringing if trust else reading)(Path(path).parent))


def found(path: str, trust: bool) -> dict[str, Any]:
    """The answer as JSON has it. A file that is not sound is told so, and ends the command."""
    try:
        topology = load(path, runs_functions=trust)
    except Refused as refused:
        cause = refused.__cause__
        if isinstance(cause, TopologyError):
            problems = [asdict(problem) for problem in cause.problems]
            click.echo(orjson.dumps({"file": path, "sound": False, "problems": problems}))
        raise
    return {
        "file": path,
        "sound": True,
        "streams": {name: [each.input, each.output] for name, each in topology.streams.items()},
        "stages": [stage.name for stage in topology.stages],
        "cut": topology.cut.why,
        "queries": {
            name: {"kind": query.kind, "warnings": warnings(query, topology)}
            for name, query in topology.queries.items()
        },
        "topics": {spec.name: spec.partitions for spec in declared(topology)},
    }


def drawn(path: str, topology: Topology) -> Tree:
    """What the file describes: streams, stages, and the topics it needs."""
    tree = Tree(f"{path}: sound")
    streams = tree.add("streams")
    for name, stream in topology.streams.items():
        waits = f"rule {stream.reorder.rule}, late {stream.reorder.late}"
        streams.add(f"{name}: {stream.input} -> {stream.output} ({waits})")
    stages = tree.add(f"stages: {topology.cut.why}")
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
    found = check(query.pattern, functions=topology.user_functions.functions)
    return [f"{warning.code}: {warning.message}" for warning in found] + [
        f"W_ARITY: `{call.function}` is called with {len(call.arguments)} values; it takes {takes}"
        for call, takes in misfits(query.pattern, topology.user_functions.functions)
    ]


def misfits(
    query: Query, functions: Mapping[str, Callable[..., Any]]
) -> Iterator[tuple[Call, str]]:
    """Calls of a user's own functions that do not fit, and what these take."""
    for expression in expressions(query):
        for call in walk(expression):
            if isinstance(call, Call) and call.function in functions:
                try:
                    signature = inspect.signature(functions[call.function])
                except (TypeError, ValueError):
                    continue  # one that does not tell
                try:
                    signature.bind(*call.arguments)
                except TypeError:
                    yield call, str(signature).replace(", /", "").replace("=None", "=…")
