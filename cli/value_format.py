"""Options that say in which format a topic's values are, where there is no topology file yet.

`value_format_options` adds them to a command, which gets them as one value, `value_format`.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click
import yaml

from cli.topology_file import Refused

if TYPE_CHECKING:
    from topology.fields.values import Decode, Picking

Command = TypeVar("Command", bound=Callable[..., Any])
REGISTRY_WAIT_S: Final = 15.0
PATIENCE_S: Final = 2.0
MAX_SCHEMAS: Final = 2_000
"""So many are asked for once; what comes beyond is asked for each time."""


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

    def lines(self, topic: str) -> list[str]:
        """`section` in YAML, a line for each key."""
        return [f"{key}: {_flow(value)}" for key, value in self.section(topic).items()]

    def decoder(self, topic: str) -> tuple[Decode, Picking | None]:
        """What reads values of the topic, and what reads only some fields of them. A registry is
        asked for a schema when its first value comes."""
        from codec.values.schema_fault import SchemaFault
        from codec.values.schemas import REGISTERED, values_decoder
        from topology.config import TopologyError, parse

        section = self.section(topic) | {"input": topic, "fields": {"source": "key", "seq": "key"}}
        try:
            stream = parse({"streams": {"default": section}}).streams["default"]
        except TopologyError as error:
            raise Refused(f"--format {self.format}: {error.problems[0]}") from None
        schema = stream.value_schema
        if schema is not None and schema.registry is not None and self.format in REGISTERED:
            return _by_registry(schema.registry, schema.subjects), None
        try:
            return values_decoder(stream.format, schema)
        except SchemaFault as fault:
            raise Refused(f"--schema: {fault}") from None


def _flow(value: object) -> str:
    spelled: str = yaml.safe_dump(value, default_flow_style=True, width=1_000)
    return spelled.removesuffix("...\n").strip()


def _by_registry(registry: str, subjects: Collection[str]) -> Decode:
    from agents.registry.client import RegistryRefuses
    from agents.registry.feed import SchemaFeed
    from codec.values.registered import RegisteredSchemas

    table, feed = RegisteredSchemas(registry, subjects), SchemaFeed(PATIENCE_S)
    asked: set[int] = set()

    async def reach(value: bytes) -> None:
        async with asyncio.timeout(REGISTRY_WAIT_S):
            await feed.reach(table, [value])

    def decode(value: bytes | None) -> object:
        new = [each for each in table.unresolved([value]) if each not in asked]
        if value is not None and new:
            if len(asked) < MAX_SCHEMAS:
                asked.update(new)
            try:
                asyncio.run(reach(value))
            except RegistryRefuses as refuses:
                raise Refused(f"--registry: {refuses}") from None
            except TimeoutError:
                raise Refused(f"--registry: {registry} gives no answer; is it there?") from None
        return table.decode(value)

    return decode


def value_format_options(command: Command) -> Command:
    """Adds the options; the command gets `value_format`, a `ValueFormat`."""

    @functools.wraps(command)
    def with_format(*args: Any, **kwargs: Any) -> Any:
        given = {name: kwargs.pop(name) for name in ValueFormat._fields}
        return command(*args, value_format=ValueFormat(**given), **kwargs)

    wrapped: Any = with_format
    for option in (
        click.option("--registry", "registry", metavar="URL", help="A schema registry."),
        click.option("--message", "message", metavar="NAME", help="The Protobuf message."),
        click.option("--schema", "schema", metavar="FILE", help="The schema of a topic's values."),
        click.option(
            "--format",
            "format",
            type=click.Choice(("json", "avro", "protobuf", "bytes")),
            default="json",
            show_default=True,
            help="The format of a topic's values.",
        ),
    ):
        wrapped = option(wrapped)
    typed: Command = wrapped
    return typed
