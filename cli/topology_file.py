"""Reading the topology file for a command: bad ones end it with exit 2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from agents.exits import Exit

if TYPE_CHECKING:
    from topology.config import Topology

Decorator = Callable[[Any], Any]
EMBEDDED: Final = "embedded"
"""In place of brokers: one inside the worker's process."""


class Refused(click.ClickException):
    """Bad arguments or a bad topology file."""

    exit_code = Exit.REFUSED


def load(path: str, redis: str | None = None, *, runs_functions: bool = True) -> Topology:
    """The topology; `Refused` names every problem with its path and remedy.

    `redis` replaces the file's `redis:`, which may hold a password. The file that `functions:`
    names is run, or else read only (`cli.functions_text`): then the topology can be looked at.
    """
    # Many commands need no more than what is below, and this takes half of a second to import.
    from topology.config import TopologyError, parse
    from topology.config.yaml_text import MAX_CHARS

    if runs_functions:
        from agents.user_functions import bringing as brought
    else:
        from cli.functions_text import reading as brought
    bring = brought(Path(path).parent)
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(MAX_CHARS + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise Refused(f"{path}: {reason}; give a topology file in YAML") from error
    try:
        topology = parse(text, bring)
    except TopologyError as error:
        raise Refused(f"{path}:\n{error}") from error
    streams = {
        name: stream.with_schema_from(str(Path(path).parent))
        for name, stream in topology.streams.items()
    }
    topology = topology.model_copy(update={"streams": streams})
    return topology if redis is None else topology.model_copy(update={"redis": redis})


def topology_named(variable: str = "INORDER_TOPOLOGY", *, required: bool = False) -> Decorator:
    """Return the option --topology; the parameter is `topology_path`."""
    return click.option(
        "--topology",
        "topology_path",
        required=required,
        envvar=variable,
        metavar="FILE",
        help="The topology file (YAML).",
    )


topology_option = topology_named(required=True)


def _outside(_: click.Context, __: click.Parameter, brokers: str | None) -> str | None:
    if brokers == EMBEDDED:
        raise Refused(
            "--brokers embedded: only `inorder worker` starts a broker of its own; write the"
            " HOST:PORT that the worker then names"
        )
    return brokers


def brokers_named(variable: str = "INORDER_BROKERS", *, required: bool = False) -> Decorator:
    """Return the option --brokers, of a command that starts none."""
    return click.option(
        "--brokers",
        required=required,
        envvar=variable,
        metavar="HOST:PORT[,…]",
        callback=_outside,
        help="Kafka brokers.",
    )


def topic_named(*, required: bool = True) -> Decorator:
    """Return the option --topic."""
    return click.option("--topic", required=required, metavar="NAME", help="The Kafka topic.")


def source_named(*, multiple: bool = False) -> Decorator:
    """Return the option --source of a command that answers for all sources without it."""
    return click.option("--source", multiple=multiple, metavar="NAME", help="Only this source.")


def redis_named(*, required: bool = False) -> Decorator:
    """Return the option --redis."""
    return click.option(
        "--redis",
        required=required,
        envvar="INORDER_REDIS",
        metavar="URL",
        help="redis://HOST:PORT/0; rediss:// for TLS. Say it by the variable if it holds a"
        " password.",
    )


brokers_option = brokers_named(required=True)
out_option = click.option(
    "--out", type=click.Path(dir_okay=False), metavar="FILE", help="The topology file to write."
)
follow_option = click.option("--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
stage_option = click.option(
    "--stage",
    "names",
    multiple=True,
    envvar="INORDER_STAGE",
    help="Only this stage (repeatable).",
)
kafka_option = click.option(
    "--kafka",
    "kafka_path",
    envvar="INORDER_KAFKA",
    metavar="FILE",
    help="TLS and SASL settings (security.protocol=… and the like, a line each); each may also"
    " come from the environment, as INORDER_SECURITY_PROTOCOL.",
)
brokers_or_embedded_option = click.option(
    "--brokers",
    required=True,
    envvar="INORDER_BROKERS",
    metavar="HOST:PORT[,…]",
    help="Kafka brokers, or `embedded` for one inside the process.",
)
