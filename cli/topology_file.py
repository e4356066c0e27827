"""Reading the topology file for a command: bad ones end it with exit 2."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from agents.exits import Exit

if TYPE_CHECKING:
    from topology.config import Topology

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


topology_option = click.option(
    "--topology",
    "topology_path",
    required=True,
    envvar="INORDER_TOPOLOGY",
    metavar="FILE",
    help="The topology file (YAML).",
)

optional_topology_option = click.option(
    "--topology",
    "topology_path",
    envvar="INORDER_TOPOLOGY",
    metavar="FILE",
    help="The topology file (YAML); not needed with --source.",
)


def _outside(_: click.Context, __: click.Parameter, brokers: str) -> str:
    if brokers == EMBEDDED:
        raise Refused(
            "--brokers embedded: only `inorder worker` starts a broker of its own; write the"
            " HOST:PORT that the worker then names"
        )
    return brokers


brokers_option = click.option(
    "--brokers",
    required=True,
    envvar="INORDER_BROKERS",
    metavar="HOST:PORT[,…]",
    callback=_outside,
    help="Kafka brokers.",
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
redis_option = click.option(
    "--redis",
    envvar="INORDER_REDIS",
    metavar="URL",
    help="Where local copies are kept (state: redis), in place of the file's `redis:`.",
)
