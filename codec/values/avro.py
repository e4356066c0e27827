"""Decodes Avro values: a record to a dict, a union to its branch, an enum to its symbol.

| Avro                     | Python                                                     |
| ------------------------ | ---------------------------------------------------------- |
| decimal                  | Decimal, exact                                             |
| uuid, date               | text                                                       |
| timestamp-millis, …      | `Timestamp`                                                |
| local-timestamp-millis…  | `Timestamp` of a clock whose zone is unknown               |
| time-millis, …           | the integer                                                |
| duration, bytes, fixed   | bytes                                                      |

A value is read by the schema that it was written with. If the stream has a reader's schema, the
library resolves the value to it, by the rules of Avro. Aliases rename fields and records, defaults
fill in missing fields, and numbers are widened. Fields that the reader's schema lacks are dropped.
The library fills in a default as it stands in the schema. So `require_plain_defaults` refuses a
default that would have to be decoded.

A schema bounds the size of its decoded values. `parse` refuses a schema with more than `MAX_TYPES`
types or a nesting above `MAX_DEPTH`. It also refuses arrays and maps whose items may have more than
`MAX_VALUES_PER_BYTE` values for each of their bytes. Otherwise an array of nulls could state two
billion values in six bytes. Recursive schemas are read by the library's Python reader, which is ten
times slower, because the C reader has no limit of depth.

The library is an extra (`inorder-engine[avro]`).
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Final, NamedTuple
from uuid import UUID

import fastavro
from fastavro import _read_py, read

from codec.values.registered import SCHEMA_REFUSED
from codec.values.schema_fault import SchemaFault
from topology.records.values import UNDECODABLE, Decode, Timestamp, ValueFault

MAX_TYPES: Final = 5_000
MAX_DEPTH: Final = 64
MAX_VALUES_PER_BYTE: Final = 64
MAX_DECIMAL_BYTES: Final = 128
MAX_SCALE: Final = 400
_NAMED: Final = re.compile(r"'type': '(record|enum|fixed)', 'name': '([^']+)'")
_BETWEEN: Final = re.compile(r"[}\]] (?:is not|not found in) ")
"""Separates the type of the value from that of the reader in the library's reason."""

_JSON_OF: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("int", "long"), (int,)),
    **dict.fromkeys(("float", "double"), (int, float)),
    **dict.fromkeys(("string", "bytes", "fixed", "enum"), (str,)),
    **dict.fromkeys(("record", "error", "map"), (dict,)),
    "boolean": (bool,),
    "array": (list,),
    "null": (type(None),),
}
"""The Python types that defaults of a type have in JSON."""

MAX_REASON_CHARS: Final = 200
"""The maximum number of characters of the library's reason in a fault."""

PREFIX: Final = "inorder-"
"""Prefix of logical types in the schemas that are used for reading.

The library's own readers of these types round, or raise errors that no data should cause.
"""

_STAMPS: Final = {
    f"{local}timestamp-{unit}": (unit_ns, bool(local))
    for unit, unit_ns in (("millis", 1_000_000), ("micros", 1_000), ("nanos", 1))
    for local in ("", "local-")
}
_READ_AS: Final = {
    **{f"long-{name}": f"{PREFIX}{name}" for name in _STAMPS},
    "bytes-decimal": f"{PREFIX}decimal",
    "fixed-decimal": f"{PREFIX}decimal",
    "fixed-uuid": f"{PREFIX}uuid",
    "int-date": f"{PREFIX}date",
}
"""The logical types to read with, by type and logical type; any other is read as its plain type."""

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()

_WRONG: Final = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
"""The errors that the library raises for bytes that do not match the schema."""


class AvroSchema(NamedTuple):
    """A parsed schema for `make_decoder`; a recursive one contains itself."""

    schema: Any
    is_recursive: bool
    named: Mapping[str, Any]
    """The schema's records, enums and fixed types, by full name."""


def parse(text: str, referred: Sequence[str] = ()) -> AvroSchema:
    """Parse the text of a schema.

    The schema may use types of the schemas in `referred`, each of which may use those before it.
    Raises SchemaFault if a schema is not valid or its values have no bound.
    """
    named: dict[str, Any] = {}
    try:
        for each in (*referred, text):
            schema = fastavro.parse_schema(
                _replace_logical_types(json.loads(each)), named_schemas=named
            )
    except (*_WRONG, fastavro.schema.SchemaParseException) as wrong:
        raise SchemaFault(
            f"is not an Avro schema ({str(wrong)[:MAX_REASON_CHARS] or 'nested too deep'})"
        ) from None
    measuring = _Measuring(named)
    measuring.measure(schema, 0)
    return AvroSchema(schema, measuring.is_recursive, named)


def require_plain_defaults(reader: AvroSchema) -> None:
    """Raise SchemaFault if a default would be wrong, because the library does not decode it."""
    for record in reader.named.values():
        for field in record.get("fields", ()):
            if "default" in field and _is_encoded(field["type"], field["default"], reader.named):
                raise SchemaFault(
                    f"has a default for the field `{field['name']}`, whose type is bytes, fixed or"
                    " a logical type; add null to the type, and make null the default"
                )


def make_decoder(schema: AvroSchema, reader: AvroSchema | None = None) -> Decode:
    """Return a decoder of values without any prefix; a value must use all of its bytes.

    Values are resolved to the schema `reader`, if it is given.
    """
    read_next = make_reader(schema, reader)

    def decode(value: bytes | None) -> object:
        if value is None:
            return None
        stream = io.BytesIO(value)
        decoded = read_next(stream)
        if stream.tell() != len(value):
            left = len(value) - stream.tell()
            raise ValueFault(UNDECODABLE, f"{left} bytes are left after the Avro value")
        return decoded

    return decode


def make_reader(
    schema: AvroSchema, reader: AvroSchema | None = None
) -> Callable[[io.BytesIO], object]:
    """Return a function that reads the next value in a stream, and resolves it to `reader`.

    The function raises ValueFault if the value is invalid, or cannot be resolved.
    """
    is_recursive = schema.is_recursive or (reader is not None and reader.is_recursive)
    read_one = _read_py.schemaless_reader if is_recursive else fastavro.schemaless_reader
    of_schema, to_schema = schema.schema, None if reader is None else _add_aliases(reader, schema)
    has_own_parts = reader is not None and _has_parts_in_defaults(reader)

    def read_next(stream: io.BytesIO) -> object:
        try:
            decoded: object = read_one(stream, of_schema, to_schema)
        except read.SchemaResolutionError as wrong:
            raise ValueFault(SCHEMA_REFUSED, _explain_misfit(str(wrong))) from None
        except _WRONG as wrong:
            kind = "it ends too early" if isinstance(wrong, EOFError) else type(wrong).__name__
            raise ValueFault(
                UNDECODABLE,
                f"the value does not match its Avro schema ({kind}); name the schema that it was"
                " written with, or set `registry:` if values begin with a registry's five bytes",
            ) from None
        if is_recursive and _is_deeper(decoded, MAX_DEPTH):
            raise ValueFault(UNDECODABLE, f"the value is nested more than {MAX_DEPTH} deep")
        return _copy(decoded) if has_own_parts else decoded

    return read_next


def _explain_misfit(reason: str) -> str:
    """Return why a value does not fit the reader's schema, and the remedy."""
    why = "the value's schema does not fit schema.reader"
    found = [_NAMED.search(part) for part in _BETWEEN.split(reason, maxsplit=1)]
    match [(each[1], _last(each[2])) for each in found if each is not None]:
        case [(kind, name), (other_kind, other)] if kind == other_kind and name != other:
            return f"{why}; name '{name}' as an alias of {kind} '{other}'"
    if reason.startswith("No default value"):
        remedy = "add the alias or the default that is missing there"
    elif "reader symbol list" in reason:
        remedy = "add the symbol there, or a default to the enum"
    else:
        remedy = "give the field a type that takes both, or correct the sender"
    # The names with __ are the library's own.
    short = reason.partition(", '__")[0][:MAX_REASON_CHARS]
    return f"{why} ({short}); {remedy}"


# -- schemas ---------------------------------------------------------------------------------------


def _replace_logical_types(schema: Any) -> Any:
    """Return a copy of the schema, with logical types replaced as in `_READ_AS` or removed."""
    if isinstance(schema, list):
        return [_replace_logical_types(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    marked = {
        name: _replace_logical_types(each) for name, each in schema.items() if name != "logicalType"
    }
    logical, of_type = schema.get("logicalType"), schema.get("type")
    read_as = _READ_AS.get(f"{of_type}-{logical}")
    if read_as is not None:
        marked["logicalType"] = read_as
        scale = schema.get("scale", 0)
        if type(scale) is not int or not 0 <= scale <= MAX_SCALE:
            raise ValueError(f"the scale of a decimal is not in 0..{MAX_SCALE}")
    return marked


def _add_aliases(reader: AvroSchema, schema: AvroSchema) -> Any:
    """Return the reader's schema with the aliases that values of `schema` need.

    A field that is there by its own name needs none. The library would take either of the two, or
    fail, if a value has both.
    """
    written = [
        (_last(name), {field["name"] for field in each["fields"]})
        for name, each in schema.named.items()
        if "fields" in each
    ]

    def copy_part(part: Any) -> Any:
        if isinstance(part, list):
            return [copy_part(each) for each in part]
        if not isinstance(part, dict):
            return part
        # The names with __ are the library's own. They lead back to the records.
        copy = {
            key: value if key == "default" else copy_part(value)
            for key, value in part.items()
            if not key.startswith("__")
        }
        if "fields" in copy:
            names = {_last(each) for each in (copy["name"], *copy.get("aliases", ()))}
            there = set().union(*(fields for record, fields in written if record in names))
            for field in copy["fields"]:
                if field["name"] in there:
                    field.pop("aliases", None)
        return copy

    return fastavro.parse_schema(copy_part(reader.schema))


def _is_encoded(schema: Any, default: object, named: Mapping[str, Any]) -> bool:
    """Return whether a default, as JSON has it, differs from a decoded value of its type."""
    schema = _whole(schema, named)
    if isinstance(schema, list):
        fitting = [each for each in schema if _takes(each, default, named)]
        return bool(fitting) and _is_encoded(fitting[0], default, named)
    if _kind(schema) in {"bytes", "fixed"} or "logicalType" in schema:
        return True
    if isinstance(default, list) and "items" in schema:
        return any(_is_encoded(schema["items"], part, named) for part in default)
    if isinstance(default, dict) and "values" in schema:
        return any(_is_encoded(schema["values"], part, named) for part in default.values())
    if isinstance(default, dict) and "fields" in schema:
        types = {field["name"]: field["type"] for field in schema["fields"]}
        return any(
            _is_encoded(types[name], part, named) for name, part in default.items() if name in types
        )
    return False


def _takes(schema: Any, default: object, named: Mapping[str, Any]) -> bool:
    """Return whether a default in JSON may be of this branch of a union."""
    return type(default) in _JSON_OF.get(_kind(_whole(schema, named)), ())


def _kind(schema: Any) -> str:
    return str(schema["type"] if isinstance(schema, dict) else schema)


def _whole(schema: Any, named: Mapping[str, Any]) -> Any:
    """Return the definition of a type that is given by its name, else the type itself."""
    kind = "" if isinstance(schema, list) else _kind(schema)
    return named.get(kind, schema)


def _has_parts_in_defaults(reader: AvroSchema) -> bool:
    """Return whether a default is a record, a map or an array, which values would share."""
    return any(
        isinstance(field.get("default"), dict | list)
        for record in reader.named.values()
        for field in record.get("fields", ())
    )


def _copy(value: object) -> object:
    if isinstance(value, dict):
        return {key: _copy(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_copy(part) for part in value]
    return value


def _last(name: str) -> str:
    return name.rpartition(".")[2]


_LEAST_BYTES: Final = {
    "null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1,
    "enum": 1,
}  # fmt: skip


class _Measuring:
    """A walk through a parsed schema; raises SchemaFault if its values have no bound.

    `excess` is the maximum by which the number of a type's values exceeds `MAX_VALUES_PER_BYTE`
    times their bytes. It must be at most 0 for repeated parts, so that the excess of a whole value
    is bounded.
    """

    def __init__(self, named: Mapping[str, Any]) -> None:
        self.is_recursive = False
        self._named = named
        self._open: set[str] = set()
        self._types = 0

    def measure(self, schema: Any, depth: int) -> int:
        self._types += 1
        if self._types > MAX_TYPES or depth > MAX_DEPTH:
            raise SchemaFault(
                f"has more than {MAX_TYPES} types, or is nested more than {MAX_DEPTH} deep"
            )
        if isinstance(schema, list):
            branches = [self.measure(branch, depth + 1) for branch in schema]
            return max(branches, default=0) - MAX_VALUES_PER_BYTE
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, dict | list):
            return self.measure(kind, depth + 1)
        if kind in {"record", "error"}:
            return self._measure_record(schema, depth)
        if kind in {"array", "map"}:
            self._check_bounded(schema, kind, depth)
            return 1 - MAX_VALUES_PER_BYTE
        if kind == "fixed":
            return 1 - MAX_VALUES_PER_BYTE * int(schema["size"])
        if kind in _LEAST_BYTES:
            return 1 - MAX_VALUES_PER_BYTE * _LEAST_BYTES[kind]
        return self.measure(self._named[kind], depth + 1)

    def _measure_record(self, schema: Any, depth: int) -> int:
        name = schema["name"]
        if name in self._open:
            self.is_recursive = True
            return 0  # This record is checked at its outer occurrence.
        self._open.add(name)
        excess = 1 + sum(self.measure(field["type"], depth + 1) for field in schema["fields"])
        self._open.remove(name)
        if self.is_recursive and excess > 0:
            raise SchemaFault(f"contains itself (`{name}`) without a bound")
        return excess

    def _check_bounded(self, schema: Any, kind: str, depth: int) -> None:
        items = self.measure(schema["items" if kind == "array" else "values"], depth + 1)
        # The key of a map's item takes at least a byte.
        if items > MAX_VALUES_PER_BYTE * (kind == "map"):
            raise SchemaFault(
                f"has {'an array' if kind == 'array' else 'a map'} whose items may be more than"
                f" {MAX_VALUES_PER_BYTE} values for each of their bytes"
            )


# -- logical types ---------------------------------------------------------------------------------


def _make_time_reader(unit_ns: int, is_local: bool) -> Callable[..., object]:
    return lambda number, *_: Timestamp(number * unit_ns, is_local)


def _decimal(value: bytes, schema: Any, *_: object) -> Decimal:
    if len(value) > MAX_DECIMAL_BYTES:
        raise ValueError("a decimal is too long")
    return Decimal(f"{int.from_bytes(value, 'big', signed=True)}E-{schema.get('scale', 0)}")


def _uuid(value: bytes, *_: object) -> str:
    return str(UUID(bytes=bytes(value)))


def _date(days: int, *_: object) -> str:
    return date.fromordinal(_EPOCH_DAY + days).isoformat()


def _readers() -> Iterator[tuple[str, Callable[..., object]]]:
    others: dict[str, Callable[..., object]] = {"decimal": _decimal, "uuid": _uuid, "date": _date}
    for key, name in _READ_AS.items():
        plain = name.removeprefix(PREFIX)
        yield (
            f"{key.partition('-')[0]}-{name}",
            _make_time_reader(*_STAMPS[plain]) if plain in _STAMPS else others[plain],
        )


for library in (read, _read_py):
    vars(library)["LOGICAL_READERS"].update(_readers())


def _is_deeper(value: object, depth: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return depth == 0 or any(_is_deeper(each, depth - 1) for each in inner)
