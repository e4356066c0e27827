"""Options that say in which format a topic's values are, where there is no topology file yet.

`value_format_options` adds them to a command, which gets them as one value, `value_format`.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from cli.topology_file import Refused

if TYPE_CHECKING:
    from codec.values.registered import RegisteredSchemas
    from topology.config import SchemaConfig
    from topology.fields.values import Decode

Command = TypeVar("Command", bound=Callable[..., Any])
REGISTRY_WAIT_S: Final = 15.0
PATIENCE_S: Final = 2.0


class ValueFormat(NamedTuple):
    """What was given. Refused, by its methods, where that does not go together."""

    format: str = "json"
    schema: str | None = None
    message: str | None = None
    registry: str | None = None

    def section(self, topic: str) -> dict[str, Any]:
        """`format` and `schema` as the stream of a topology file has them; none for plain JSON."""
        schema: dict[str, Any] = {}
        if self.registry is not None:
            schema = {"registry": self.registry, "subjects": [f"{topic}-value", f"{topic}-key"]}
        elif self.schema is not None:
            schema = {"file": self.schema}
            schema |= {"message": self.message} if self.message is not None else {}
        if self.format == "json" and not schema:
            return {}
        return {"format": self.format} | ({"schema": schema} if schema else {})

    def decoder(self, topic: str, values: Sequence[bytes | None]) -> Decode:
        """What reads these values of the topic; a registry is asked for their schemas."""
        from codec.values.schema_fault import SchemaFault
        from codec.values.schemas import REGISTERED, values_decoder
        from topology.config import TopologyError, parse

        section = self.section(topic) | {"input": topic, "fields": {"source": "key", "seq": "key"}}
        try:
            stream = parse({"streams": {"default": section}}).streams["default"]
        except TopologyError as error:
            raise Refused(f"--format {self.format}: {error.problems[0]}") from None
        table = None
        if self.registry is not None and self.format in REGISTERED:
            table = _looked_up(stream.value_schema, values)
        try:
            return values_decoder(stream.format, stream.value_schema, table)[0]
        except SchemaFault as fault:
            raise Refused(f"--schema: {fault}") from None


def _looked_up(schema: SchemaConfig | None, values: Sequence[bytes | None]) -> RegisteredSchemas:
    from agents.registry.client import RegistryRefuses
    from agents.registry.feed import SchemaFeed
    from codec.values.registered import RegisteredSchemas

    assert schema is not None
    assert schema.registry is not None
    table = RegisteredSchemas(schema.registry, schema.subjects)

    async def reach() -> None:
        async with asyncio.timeout(REGISTRY_WAIT_S):
            await SchemaFeed(PATIENCE_S).reach(table, values)

    try:
        asyncio.run(reach())
    except RegistryRefuses as refuses:
        raise Refused(f"--registry: {refuses}") from None
    except TimeoutError:
        raise Refused(f"--registry: {schema.registry} gives no answer; is it there?") from None
    return table


def value_format_options(command: Command) -> Command:
    """Adds the options; the command gets `value_format`, a `ValueFormat`."""

    @functools.wraps(command)
    def with_format(*args: Any, **kwargs: Any) -> Any:
        given = {name: kwargs.pop(f"value_{name}") for name in ValueFormat._fields}
        return command(*args, value_format=ValueFormat(**given), **kwargs)

    wrapped: Any = with_format
    for option in (
        click.option("--registry", "value_registry", metavar="URL", help="A schema registry."),
        click.option("--message", "value_message", metavar="NAME", help="The Protobuf message."),
        click.option(
            "--schema", "value_schema", metavar="FILE", help="The schema of a topic's values."
        ),
        click.option(
            "--format",
            "value_format",
            type=click.Choice(("json", "avro", "protobuf", "bytes")),
            default="json",
            show_default=True,
            help="The format of a topic's values.",
        ),
    ):
        wrapped = option(wrapped)
    typed: Command = wrapped
    return typed
