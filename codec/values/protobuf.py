"""Decodes Protobuf values: a message to a dict, whose keys are the names in the .proto file.

A scalar without presence is always in the dict, even if it is 0. A field with presence that was not
set is absent. An enum is its symbol, or its number if the schema does not know it. An int64 is an
integer, and a map is a dict with strings as keys. `google.protobuf.Timestamp` is a `Timestamp`, and
a wrapper (`Int64Value`, …) is its value.

The schema comes as serialized descriptors: a file of `protoc --include_imports
--descriptor_set_out`, or the answer of a registry. With a registry, a value begins with its five
bytes (`codec.values.registered`) and then the position of its message in the file. The library's
parser limits nesting to 100.

The library is an extra (`inorder-engine[protobuf]`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from codec.values.schema_fault import SchemaFault
from topology.records.values import UNDECODABLE, Decode, Timestamp, ValueFault

MAX_FILES: Final = 200
MAX_NAMED: Final = 10
MAX_INDEXES: Final = 16
"""The maximum nesting depth of a message's definition."""

NS_PER_S: Final = 1_000_000_000
WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
)

_NO_SCHEMA: Final = (DecodeError, KeyError, TypeError, ValueError)
_MAX_VARINT_BYTES: Final = 5

Plain = Callable[[Any], object]


def make_message_decoder(descriptors: bytes, message: str) -> Decode:
    """Return a decoder of one message of a descriptor set.

    Raises SchemaFault if the set is not valid or does not have the message.
    """
    try:
        files = FileDescriptorSet.FromString(descriptors).file
    except DecodeError:
        raise SchemaFault(
            "is not a descriptor set; write one with: protoc --include_imports --descriptor_set_out"
        ) from None
    pool = _pool([each.SerializeToString() for each in files])
    try:
        descriptor = pool.FindMessageTypeByName(message)
    except KeyError:
        own = [each for each in files if each.package != "google.protobuf"]
        names = sorted(f"{each.package}.{top.name}" for each in own for top in each.message_type)
        known = ", ".join(name.removeprefix(".") for name in names[:MAX_NAMED])
        raise SchemaFault(f"has no message `{message}`; it has {known}") from None
    return _make_decoder(descriptor)


def make_file_decoder(schema: bytes, referred: Sequence[bytes]) -> Decode:
    """Return a decoder of values that name their message by its position in the file.

    All arguments are serialized file descriptors. Each of `referred` comes after the ones that it
    names.
    """
    pool = _pool([*referred, schema])
    file = pool.FindFileByName(FileDescriptorProto.FromString(schema).name)
    decoders: dict[tuple[int, ...], Decode] = {}

    def decode(value: bytes | None) -> object:
        if value is None:
            return None
        indexes, begin = _indexes(value)
        decoder = decoders.get(indexes)
        if decoder is None:
            decoder = decoders[indexes] = _make_decoder(_at(file, indexes))
        return decoder(value[begin:])

    return decode


# -- schemas ---------------------------------------------------------------------------------------


def _pool(files: Sequence[bytes]) -> DescriptorPool:
    if len(files) > MAX_FILES:
        raise SchemaFault(f"has more than {MAX_FILES} files")
    pool = DescriptorPool()
    names = set()
    try:
        for file in (*_list_well_known(), *files):
            name = FileDescriptorProto.FromString(file).name
            if name not in names:
                pool.AddSerializedFile(file)
                names.add(name)
    except _NO_SCHEMA as wrong:
        raise SchemaFault(f"is not a Protobuf schema ({str(wrong)[:200]})") from None
    return pool


def _list_well_known() -> list[bytes]:
    """Return the files that schemas may import without including them."""
    modules = (
        any_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2,
        wrappers_pb2,
    )  # fmt: skip
    return [module.DESCRIPTOR.serialized_pb for module in modules]


def _indexes(value: bytes) -> tuple[tuple[int, ...], int]:
    """Return the indexes of the value's message in its file, and the position after them."""
    count, at = _varint(value, 0)
    if not 0 <= count <= MAX_INDEXES:
        raise ValueFault(UNDECODABLE, "the value names no message of its Protobuf schema")
    if count == 0:
        return (0,), at
    indexes = []
    for _ in range(count):
        index, at = _varint(value, at)
        indexes.append(index)
    return tuple(indexes), at


def _varint(value: bytes, at: int) -> tuple[int, int]:
    """Return the zigzag integer at `at`, of at most 32 bits, and the position after it."""
    number = 0
    for place, byte in enumerate(value[at : at + _MAX_VARINT_BYTES]):
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + place + 1
    raise ValueFault(UNDECODABLE, "the value names no message of its Protobuf schema")


def _at(file: Any, indexes: tuple[int, ...]) -> Any:
    """Return the descriptor of the message that the indexes select, in the order of the file."""
    proto = FileDescriptorProto()
    file.CopyToProto(proto)
    messages: Any = proto.message_type
    name = proto.package
    for index in indexes:
        if not 0 <= index < len(messages):
            raise ValueFault(UNDECODABLE, "the value names no message of its Protobuf schema")
        name = f"{name}.{messages[index].name}" if name else messages[index].name
        messages = messages[index].nested_type
    return file.pool.FindMessageTypeByName(name)


# -- values ----------------------------------------------------------------------------------------


def _make_decoder(descriptor: Any) -> Decode:
    message_class: Any = GetMessageClass(descriptor)
    plains: dict[str, Plain] = {}
    plain = _make_converter(descriptor, plains)

    def decode(value: bytes | None) -> object:
        if value is None:
            return None
        try:
            message = message_class.FromString(value)
        except DecodeError:
            raise ValueFault(
                UNDECODABLE,
                f"the value is not a `{descriptor.full_name}` of its Protobuf schema; name its own"
                " message, or set `registry:` if values begin with a registry's five bytes",
            ) from None
        return plain(message)

    return decode


def _make_converter(descriptor: Any, plains: dict[str, Plain]) -> Plain:
    """Return a function that turns the descriptor's messages into dicts.

    `plains` has the functions by name. Messages may contain themselves, so an unfinished function
    is looked up when it is called.
    """
    name = descriptor.full_name
    if name == "google.protobuf.Timestamp":
        return lambda message: Timestamp(message.seconds * NS_PER_S + message.nanos)
    if name in WRAPPERS:
        return lambda message: message.value
    if name in plains:
        return plains[name]
    plains[name] = lambda message: plains[name](message)  # noqa: PLW0108
    fields = [
        (field.name, field.has_presence, _make_field_converter(field, plains))
        for field in descriptor.fields
    ]

    def plain(message: Any) -> object:
        found = {}
        for field, has_presence, of_field in fields:
            if not has_presence or message.HasField(field):
                found[field] = of_field(getattr(message, field))
        return found

    plains[name] = plain
    return plain


def _make_field_converter(field: Any, plains: dict[str, Plain]) -> Plain:
    of_message = field.message_type
    if of_message is not None and of_message.GetOptions().map_entry:
        value_plain = _make_value_converter(of_message.fields_by_name["value"], plains)
        return lambda entries: {_key(key): value_plain(entries[key]) for key in entries}
    of_one = _make_value_converter(field, plains)
    if field.is_repeated:
        return lambda values: [of_one(value) for value in values]
    return of_one


def _make_value_converter(field: Any, plains: dict[str, Plain]) -> Plain:
    if field.message_type is not None:
        return _make_converter(field.message_type, plains)
    if field.enum_type is not None:
        symbols: Mapping[int, str] = {
            number: value.name for number, value in field.enum_type.values_by_number.items()
        }
        return lambda number: symbols.get(number, number)
    return lambda value: value


def _key(key: object) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)
