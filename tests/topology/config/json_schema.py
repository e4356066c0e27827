"""What a JSON schema says of a value: as much of the standard as our schema uses, for its tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

Schema = dict[str, Any]

TYPES: Final[dict[str, Any]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "object": dict,
    "array": list,
    "null": type(None),
}


def faults(value: Any, schema: Schema, whole: Schema | None = None, at: str = "") -> Iterator[str]:
    """`whole`: the schema that `$ref` speaks of, where `schema` is a part."""
    whole = whole or schema
    if "$ref" in schema:
        schema = whole["$defs"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        found = [list(faults(value, each, whole, at)) for each in schema["anyOf"]]
        if all(found):
            yield from min(found, key=len)
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    kind = schema.get("type")
    if kind is not None and not _is_of(value, kind):
        yield f"{at}: {value!r} is no {kind}"
        return
    yield from _scalar_faults(value, schema, at)
    if isinstance(value, dict):
        yield from _mapping_faults(value, schema, whole, at)
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            yield f"{at}: {len(value)} are too few or too many"
        for number, each in enumerate(value):
            yield from faults(each, schema.get("items", {}), whole, f"{at}[{number}]")


def _is_of(value: Any, kind: str) -> bool:
    is_truth = isinstance(value, bool)
    return is_truth if kind == "boolean" else isinstance(value, TYPES[kind]) and not is_truth


def _scalar_faults(value: Any, schema: Schema, at: str) -> Iterator[str]:
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{at}: {value!r} does not match {schema['pattern']}"
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and not schema.get("minimum", value) <= value <= schema.get("maximum", value)
    ):
        yield f"{at}: {value} is out of range"


def _mapping_faults(value: dict[str, Any], schema: Schema, whole: Schema, at: str) -> Iterator[str]:
    if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value)):
        yield f"{at}: {len(value)} are too few or too many"
    known = schema.get("properties", {})
    others = schema.get("additionalProperties", {})
    for key in schema.get("required", ()):
        if key not in value:
            yield f"{at}: {key} is missing"
    for key, each in value.items():
        if key not in known and others is False:
            yield f"{at}: there is no key {key}"
        else:
            below = known.get(key, others or {})
            yield from faults(each, {} if below is True else below, whole, f"{at}.{key}")
