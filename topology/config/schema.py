"""Defines the section for the schema of a foreign topic's values: a file, or a schema registry."""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import ValidationInfo

from topology.spelling.problem import make_refusal
from topology.spelling.section import Section
from topology.spelling.values import Given, names, text

OF_A_SCHEMA: Final = frozenset({"avro", "protobuf"})
"""The formats whose values need a schema."""


def _registry(value: Any, _: ValidationInfo) -> str:
    try:
        parts = urlsplit(value)
        is_url = parts.scheme in {"http", "https"} and parts.hostname is not None
    except (ValueError, TypeError, AttributeError):
        is_url = False
    if not is_url:
        raise make_refusal(
            "is not the URL of a schema registry", "write it like http://registry:8081"
        )
    if parts.username or parts.password:
        remedy = "set INORDER_REGISTRY_USER and INORDER_REGISTRY_PASSWORD"
        raise make_refusal("contains a user name or password, which a file should not", remedy)
    return str(value).rstrip("/")


SUBJECTS: Final = names("subjects", "write their names in the registry, like [telemetry-value]")
FilePath = Annotated[str, text(r".{1,4096}", "a path", "write the path of a file")]
MessageName = Annotated[
    str, text(r"[A-Za-z_][\w.]{0,999}", "a message", "write its name, like plant.Telemetry")
]


MAX_READER_CHARS: Final = 65_536
ReaderSchema = Annotated[
    str,
    text(
        rf".{{1,4096}}|\{{[\s\S]{{0,{MAX_READER_CHARS - 1}}}",
        f"a path, or a schema of at most {MAX_READER_CHARS:,} characters",
        "write the path of a file",
    ),
]


class SchemaConfig(Section):
    """The schema of values: `registry` and `subjects`, or a `file`, with `message` for Protobuf."""

    registry: Annotated[str, Given(_registry, {"type": "string"})] | None = None
    """The URL of a schema registry. Values then begin with five bytes that name the schema."""
    subjects: Annotated[tuple[str, ...], SUBJECTS] = ()
    """The subjects whose schemas are accepted for values and keys. A value of another subject is a
    dead letter."""
    file: FilePath | None = None
    """A file with an Avro schema in JSON, or with the output of `protoc --include_imports
    --descriptor_set_out`. Its path is relative to the topology file. Values then begin without the
    five bytes of a registry."""
    message: MessageName | None = None
    """The Protobuf message type of the values, like plant.Telemetry."""
    reader: ReaderSchema | None = None
    """A file with the Avro schema that the queries expect, or this schema as JSON text. The path is
    relative to the topology file. Each value is resolved to this schema by the rules of Avro
    (docs/operate/schemas.md). A value that does not fit is a dead letter (`schema_refused`)."""

    @property
    def reader_file(self) -> str | None:
        """The path in `reader`; None if there is none, or if the schema has been read already."""
        return None if self.reader is None or self.reader.startswith("{") else self.reader

    def locate(self, folder: str) -> SchemaConfig:
        """Return the section with its paths relative to `folder`."""
        paths = {"file": self.file, "reader": self.reader_file}
        found = {
            key: f"{folder}/{path}"
            for key, path in paths.items()
            if path is not None and not path.startswith("/")
        }
        return self.model_copy(update=found) if found else self
