"""Provides the parts that commands share: topology file, options, and errors with exit code 2."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from agents.exits import Exit

if TYPE_CHECKING:
    from topology.config import StreamConfig, Topology

EMBEDDED: Final = "embedded"
"""The value of `--brokers` that starts a broker inside the worker's process."""


class Refused(click.ClickException):
    """The arguments or the topology file have faults, so the command ends with exit code 2."""

    exit_code = Exit.REFUSED


@contextmanager
def end_command(
    by: type[click.ClickException], *kinds: type[Exception], at: str = ""
) -> Iterator[None]:
    """End the command if the body raises one of `kinds`; `at` precedes the error's text."""
    try:
        yield
    except kinds as error:
        raise by(f"{at}{error}") from error


refusing = partial(end_command, Refused)
failing = partial(end_command, click.ClickException)


def warn(word: str) -> None:
    """Print a warning to standard error; the command goes on."""
    click.echo(f"WARNING: {word}", err=True)


def text_of(path: str, named: str, remedy: str = "", most: int = -1) -> str:
    """Return the text of a file, or its first `most` characters; errors call the file `named`."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            return file.read(most)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise Refused(f"{named}: {reason}{remedy}") from error


def write_new(option: str, path: str, text: str) -> None:
    """Write the file that the option names, or raise `Refused`."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Refused(f"{option} {path}: {error.strerror or error}") from error


def load(path: str, redis: str | None = None, *, runs_functions: bool = True) -> Topology:
    """Return the topology; raise `Refused`, which names every problem with its path and remedy.

    `redis` replaces the file's `redis:`, and may contain a password. If `runs_functions` is true,
    the file that `functions:` names is run; otherwise it is only read (`cli.functions_text`). A
    topology whose functions are only read cannot run.
    """
    # Importing `topology.config` takes half a second, and many commands need only the rest of this
    # module.
    from topology.config import TopologyError, parse
    from topology.config.yaml_text import MAX_CHARS

    if runs_functions:
        from agents.user_functions import make_loader as brought
    else:
        from cli.functions_text import make_reader as brought
    bring = brought(Path(path).parent)
    text = text_of(path, path, "; give a topology file in YAML", MAX_CHARS + 1)
    with refusing(TopologyError, at=f"{path}:\n"):
        topology = parse(text, bring)
    streams = {
        name: _with_reader(
            stream.with_schema_from(str(Path(path).parent)), f"{path}: streams.{name}.schema.reader"
        )
        for name, stream in topology.streams.items()
    }
    topology = topology.model_copy(update={"streams": streams})
    return topology if redis is None else topology.model_copy(update={"redis": redis})


def _with_reader(stream: StreamConfig, at: str) -> StreamConfig:
    """Return the stream with the text of its reader's schema, if it has one.

    Raises `Refused`, which begins with `at`, if the file is missing or not an Avro schema.
    """
    schema = stream.value_schema
    if schema is None or schema.reader is None:
        return stream
    from codec.values import avro
    from codec.values.schema_fault import SchemaFault
    from topology.config.schema import MAX_READER_CHARS

    text, file = schema.reader, schema.reader_file
    remedy = "; name a file with the Avro schema of a record"
    if file is not None:
        at += f": {file}"
        text = text_of(file, at, remedy, MAX_READER_CHARS + 1)
    if len(text) > MAX_READER_CHARS:
        raise Refused(f"{at} is longer than {MAX_READER_CHARS:,} characters{remedy}")
    try:
        parsed = avro.parse(text)
    except SchemaFault as fault:
        raise Refused(f"{at} {fault}{remedy}") from None
    if not (isinstance(parsed.schema, dict) and parsed.schema["type"] == "record"):
        raise Refused(f"{at} is not the schema of a record{remedy}")
    with refusing(SchemaFault, at=f"{at} "):
        avro.require_plain_defaults(parsed)
    # Two files that differ only in their layout are the same schema.
    return stream.with_reader(json.dumps(json.loads(text), separators=(",", ":")))


topology_named = partial(
    click.option,
    "--topology",
    "topology_path",
    envvar="INORDER_TOPOLOGY",
    metavar="FILE",
    help="The topology file (YAML).",
)
topology_option = topology_named(required=True)


def _refuse_embedded(_: click.Context, __: click.Parameter, brokers: str | None) -> str | None:
    if brokers == EMBEDDED:
        raise Refused(
            "--brokers embedded: only `inorder worker` starts an embedded broker; write the"
            " HOST:PORT that the worker logs"
        )
    return brokers


def _new(_: click.Context, __: click.Parameter, out: str | None) -> str | None:
    if out is not None and Path(out).exists():
        raise Refused(f"--out {out}: exists already; name another file")
    return out


brokers_named = partial(
    click.option, "--brokers", envvar="INORDER_BROKERS", required=True, metavar="HOST:PORT[,…]"
)
brokers_outside = partial(brokers_named, callback=_refuse_embedded, help="Kafka brokers.")
"""The option of commands that start no broker."""

brokers_option = brokers_outside()
topic_named = partial(click.option, "--topic", metavar="NAME", help="The Kafka topic.")
source_named = partial(click.option, "--source", metavar="NAME", help="Only this source.")
redis_named = partial(
    click.option,
    "--redis",
    envvar="INORDER_REDIS",
    metavar="URL",
    help="redis://HOST:PORT/0, or rediss:// for TLS. Set it by its variable if it "
    "holds a password.",
)
out_option = click.option(
    "--out",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    callback=_new,
    help="Write a topology file.",
)
follow_option = click.option(
    "--follow", is_flag=True, help="Continue with new records until Ctrl-C."
)
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
    help="TLS and SASL settings, one line each, such as security.protocol=SSL. The"
    " environment may hold them too, as INORDER_SECURITY_PROTOCOL.",
)
