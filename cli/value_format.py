"""Defines the options that name the format of a topic's or file's values without a topology.

`value_format_options` adds the options to a command, which gets them as one value, `value_format`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from cli.option_group import option, option_group, options_of
from cli.topology_file import Refused, refusing
from recordings.file import Form, form_by_name
from topology.config import SchemaConfig, TopologyError, parse

if TYPE_CHECKING:
    from recordings.encoded import FileEncoding
    from topology.records.values import Decode, Picking

REGISTRY_WAIT_S: Final = 15.0
PATIENCE_S: Final = 2.0
MAX_SCHEMAS: Final = 2_000
"""The maximum number of schemas that are kept; any others are requested for each value."""


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """The format options as given; the methods raise `Refused` if they contradict each other."""

    format: str = option(
        "--format",
        type=click.Choice(("json", "avro", "protobuf", "bytes")),
        default="json",
        help="Format of the values; not needed for a file .jsonl, .csv, .parquet or .avro.",
    )
    schema: str | None = option("--schema", metavar="FILE", help="Schema of the values.")
    message: str | None = option("--message", metavar="NAME", help="The Protobuf message.")
    registry: str | None = option("--registry", metavar="URL", help="URL of a schema registry.")

    def section(self, topic: str) -> dict[str, Any]:
        """Return the keys `format` and `schema` for the topic's stream; no keys for plain JSON."""
        schema: dict[str, Any] = {}
        if self.registry is not None:
            schema = {"registry": self.registry, "subjects": [f"{topic}-value", f"{topic}-key"]}
        elif self.schema is not None:
            schema = {"file": self.schema}
            schema |= {"message": self.message} if self.message is not None else {}
        if self.format == "json" and not schema:
            return {}
        return {"format": self.format} | ({"schema": schema} if schema else {})

    def section_of_file(self) -> dict[str, Any]:
        """Return the keys for a file's values; none without `--schema`, as the topic is unknown."""
        return {} if self.schema is None else self.section("")

    def decoder(self, topic: str) -> tuple[Decode, Picking | None]:
        """Return two readers of values: for whole values, and for some fields (or None).

        The registry is asked for a schema when the schema's first value arrives.
        """
        self._refuse_misfit()
        section = self.section(topic) | {"input": topic, "fields": {"source": "key", "seq": "key"}}
        try:
            stream = parse({"streams": {"default": section}}).streams["default"]
        except TopologyError as error:
            raise Refused(f"--format {self.format}: {error.problems[0]}") from None
        return decoder_of(self.format, stream.value_schema)

    def encoding_for_file(self, path: str) -> FileEncoding | None:
        """Return the encoding of the file's values; None if the file itself states it."""
        self._refuse_misfit()
        schema = None
        if self.schema is not None or self.registry is not None:
            schema = SchemaConfig(registry=self.registry, file=self.schema, message=self.message)
        if self.format == "json" and schema is not None:
            raise Refused(
                "--registry: the lines of a file have no registry's five bytes; leave it out"
            )
        return encoding_of(self.format, schema, path)

    def _refuse_misfit(self) -> None:
        """Raise `Refused` if the options contradict each other."""
        wrong = ""
        if self.schema is not None and self.registry is not None:
            wrong = "--schema and --registry: name one of the two"
        elif self.message is not None and (self.format != "protobuf" or self.schema is None):
            wrong = "--message: belongs to --format protobuf with --schema FILE; leave it out"
        elif self.schema is not None and self.format in ("json", "bytes"):
            wrong = f"--schema: has no effect on {self.format}; write --format avro or protobuf"
        elif self.registry is not None and self.format == "bytes":
            wrong = "--registry: has no effect on bytes; leave it out"
        elif self.format == "protobuf" and self.schema is not None and self.message is None:
            wrong = "--message is missing; write the message, like plant.Telemetry"
        elif self.format == "protobuf" and self.schema is None and self.registry is None:
            wrong = (
                "--format protobuf: the schema is missing; write --schema FILE (of protoc"
                " --include_imports --descriptor_set_out) and --message NAME, or --registry URL"
            )
        if wrong:
            raise Refused(wrong)


def encoding_of(format_: str, schema: SchemaConfig | None, path: str) -> FileEncoding | None:
    """Return the encoding of a file's values in this format; None if the file's form states it."""
    if format_ == "json":
        return None
    from recordings.encoded import FileEncoding

    if format_ == "bytes":
        raise Refused(
            "--format bytes: bytes have no field for source and time; name another"
            " format, or leave it out for JSON lines, CSV and Parquet"
        )
    named = form_by_name(path)
    if named is not None and (named, format_) != (Form.AVRO, "avro"):
        raise Refused(
            f"--format {format_}: {path} is {named.value} by its name; leave --format out, or"
            " rename the file"
        )
    if schema is None or named is Form.AVRO:
        return FileEncoding(format_, None, None if schema is None else schema.reader)
    return FileEncoding(format_, decoder_of(format_, schema, of_topic=False)[0])


def decoder_of(
    format_: str, schema: SchemaConfig | None, *, of_topic: bool = True
) -> tuple[Decode, Picking | None]:
    """Return two readers of the format: for whole values, and for some fields (or None).

    With `of_topic`, only schemas of the named subjects are accepted. For a file, its owner chose
    the schemas.
    """
    from codec.values.schema_fault import SchemaFault
    from codec.values.schemas import REGISTERED, values_decoder

    if schema is not None and schema.registry is not None and format_ in REGISTERED:
        return _make_registry_decoder(schema, schema.subjects if of_topic else None), None
    with refusing(SchemaFault, at="--schema: "):
        return values_decoder(format_, schema)


def _make_registry_decoder(schema: SchemaConfig, subjects: Collection[str] | None) -> Decode:
    import asyncio

    from agents.registry.client import RegistryRefuses
    from agents.registry.feed import SchemaFeed
    from codec.values.registered import RegisteredSchemas

    registry = schema.registry
    assert registry is not None
    table = RegisteredSchemas(registry, subjects, reader=schema.reader)
    feed = SchemaFeed(PATIENCE_S)
    asked: set[int] = set()

    async def fetch_schemas(value: bytes) -> None:
        async with asyncio.timeout(REGISTRY_WAIT_S):
            await feed.reach(table, [value])

    def decode(value: bytes | None) -> object:
        new = [each for each in table.find_unresolved([value]) if each not in asked]
        if value is not None and new:
            if len(asked) < MAX_SCHEMAS:
                asked.update(new)
            try:
                with refusing(RegistryRefuses, at="--registry: "):
                    asyncio.run(fetch_schemas(value))
            except TimeoutError:
                raise Refused(
                    f"--registry: {registry} does not answer; check that it runs"
                ) from None
        return table.decode(value)

    return decode


value_format_options = option_group("value_format", ValueFormat, options_of(ValueFormat))
