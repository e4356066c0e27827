"""`inorder check` checks a topology file, shows its parts, and compares it with a running one."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import orjson

from agents.exits import Exit
from agents.kafka.declared import list_needed_topics
from agents.user_functions import make_loader
from cli.as_json import json_option
from cli.functions_text import make_reader
from cli.kafka_options import Kafka, on_kafka
from cli.topology_file import Refused, load, refusing
from topology.config import PatternQuery, QueryConfig, Topology, TopologyError, reference
from topology.config.change import format_refusals

if TYPE_CHECKING:
    from rich.tree import Tree

    from topology.config.change import Difference
    from topology.queries.pattern.tree.syntax import Call, Query

NS_PER_S: Final = 1_000_000_000
SMALLEST: Final[dict[str, Any]] = {"streams": {"default": {}}}


@click.command("check")
@click.option(
    "--schema", is_flag=True, help="Print the JSON schema of topology files, for editors."
)
@click.option("--defaults", is_flag=True, help="Print the file with every default filled in.")
@click.option(
    "--trust",
    is_flag=True,
    help="Run the Python file that `functions:` names, as a worker does. Without "
    "it, check only reads the file.",
)
@on_kafka(required=False, envvar="INORDER_CHECK_BROKERS")
@json_option("CHECK")
@click.argument("path", metavar="[FILE]", required=False)
def command(
    schema: bool,
    defaults: bool,
    trust: bool,
    kafka: Kafka,
    as_json: bool,
    path: str | None,
) -> None:
    """Check the topology FILE: exit 0 if it is sound, 2 with every problem if not.

    With --brokers, compare it with the running application of its name: a line for each
    difference, and exit 2 if a change is refused.
    """
    if schema:
        text = orjson.dumps(reference.schema(), option=orjson.OPT_INDENT_2).decode()
        click.echo(text)
    elif defaults:
        click.echo(fill(path, trust), nl=False)
    elif path is None:
        raise Refused("FILE is missing; give a topology file, or --schema, or --defaults")
    elif kafka.servers:
        differences = find_changes(load(path, runs_functions=trust), kafka)
        if as_json:
            answer = {
                **check_as_json(path, trust),
                "changes": [each._asdict() for each in differences],
            }
            click.echo(orjson.dumps(answer))
        else:
            for each in differences:
                click.echo(str(each))
            if not differences:
                click.echo(
                    f"{path}: changes nothing on which the application's state depends; restarted"
                    " workers use the whole file"
                )
        if format_refusals(differences):
            raise SystemExit(Exit.REFUSED)
    elif as_json:
        click.echo(orjson.dumps(check_as_json(path, trust)))
    else:
        from rich.console import Console

        Console().print(draw(path, load(path, runs_functions=trust)))


def find_changes(topology: Topology, kafka: Kafka) -> list[Difference]:
    """Return the differences from the running application of this name on which its state depends.

    Raises:
        Refused: The differences cannot be determined.
    """
    from aiokafka.errors import KafkaError

    from agents.restore.plan import plan
    from agents.state.changelog import StateRefused

    brokers = kafka.brokers()
    if brokers.is_embedded:
        raise Refused(
            f"{kafka.servers} is an embedded broker: a worker keeps no state there, so nothing"
            " shows with which file it runs; leave --brokers out to check the file alone"
        )
    try:
        with refusing(StateRefused):
            return asyncio.run(plan(brokers, topology)).differences
    except (KafkaError, TimeoutError) as failed:
        rights = "`inorder topics acls` lists the necessary rights"
        raise Refused(f"the running application is unknown: {failed!r}; {rights}") from failed


def fill(path: str | None, trust: bool = False) -> str:
    """Return the file with every default filled in; without a path, the smallest topology file."""
    if path is None:
        return reference.fill(SMALLEST)
    load(path, runs_functions=trust)  # The loader reports faults with their line.
    import yaml

    document = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    return reference.fill(document, (make_loader if trust else make_reader)(Path(path).parent))


def check_as_json(path: str, trust: bool) -> dict[str, Any]:
    """Return the result of the check as an object for JSON.

    If the file has faults, print them as JSON and raise `Refused`.
    """
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
            name: {"kind": query.kind, "warnings": find_warnings(query, topology)}
            for name, query in topology.queries.items()
        },
        "topics": {spec.name: spec.partitions for spec in list_needed_topics(topology)},
    }


def draw(path: str, topology: Topology) -> Tree:
    """Draw the streams, stages, queries and topics of the file as a tree."""
    from rich.text import Text
    from rich.tree import Tree

    def add(branch: Tree, label: str, leaves: Iterable[str | Text]) -> None:
        added = branch.add(label)
        for leaf in leaves:
            added.add(leaf)

    tree = Tree(Text(f"{path}: sound"))  # A plain string would be parsed for markup in brackets.
    streams = tree.add("streams")
    for name, stream in topology.streams.items():
        waits = f"rule {stream.reorder.rule}, late {stream.reorder.late}"
        streams.add(f"{name}: {stream.input} -> {stream.output} ({waits})")
    add(tree, f"stages: {topology.cut.why}", (stage.name for stage in topology.stages))
    queries = tree.add("queries") if topology.queries else tree
    for name, query in topology.queries.items():
        runs = any(query.kind in stage.operators for stage in topology.stages)
        idle = [] if runs else [f"no stage runs it: add {query.kind} to `stages`"]
        said = map(Text, find_warnings(query, topology))
        add(queries, f"{name}: {query.kind}", [*idle, *said])
    topics = (f"{spec.name}: {spec.partitions} partitions" for spec in list_needed_topics(topology))
    add(tree, "topics", topics)
    return tree


def find_warnings(query: QueryConfig, topology: Topology) -> list[str]:
    if not isinstance(query, PatternQuery):
        return []
    # Importing the pattern language doubles this command's import time, and most files have no
    # pattern.
    from topology.queries.pattern.language.check import check

    found = check(query.pattern, functions=topology.user_functions.functions)
    return (
        [f"{warning.code}: {warning.message}" for warning in found]
        + [
            f"W_ARITY: `{call.function}` is called with {len(call.arguments)} values;"
            f" it takes {takes}"
            for call, takes in find_wrong_calls(query.pattern, topology.user_functions.functions)
        ]
        + [f"W_ABSENCE: {warning}" for warning in find_late_absences(query, topology)]
    )


def find_late_absences(query: PatternQuery, topology: Topology) -> Iterator[str]:
    """Yield a warning if the query ends in a negation whose result may be very late.

    The result waits for a source that falls silent, because its event could contradict it.
    """
    from topology.queries.pattern.tree.defaults import ends_in_negation

    pattern = query.pattern
    if query.quality is not None or not ends_in_negation(pattern.node):
        return
    waits = (
        "the result waits for a source that falls silent, so absence is reported up to"
        f" {topology.correct_for_ns / NS_PER_S:g} s (`correct_for`) after its time is over"
    )
    if pattern.emit == "final":
        yield f"{waits}; EMIT EAGER reports it in time, and retracts it if the event was late"
    elif query.answer == "final":
        yield f"{waits}; `answer: early` reports it in time"


def find_wrong_calls(
    query: Query, functions: Mapping[str, Callable[..., Any]]
) -> Iterator[tuple[Call, str]]:
    """Yield each call of a user function with wrong arguments, and the function's signature."""
    from topology.queries.pattern.tree.syntax import Call
    from topology.queries.pattern.tree.walk import find_expressions, walk

    for expression in find_expressions(query):
        for call in walk(expression):
            if isinstance(call, Call) and call.function in functions:
                try:
                    signature = inspect.signature(functions[call.function])
                except (TypeError, ValueError):
                    continue  # The signature of this function is unknown.
                try:
                    signature.bind(*call.arguments)
                except TypeError:
                    yield call, str(signature).replace(", /", "").replace("=None", "=…")
