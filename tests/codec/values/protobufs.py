"""A Protobuf schema of the tests, made without protoc.

package plant;
message Telemetry {
  string device = 1; int64 n = 2; google.protobuf.Timestamp at = 3; Kind kind = 4;
  optional int32 boot = 5; double value = 6; bytes raw = 7; repeated double more = 8;
  map<int32, string> names = 9; google.protobuf.Int64Value maybe = 10; Telemetry inner = 11;
  message Nested { string word = 1; }
  repeated Nested nested = 12;
}
"""

from __future__ import annotations

from typing import Any

from google.protobuf import timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import (
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

STRING, INT64, MESSAGE, ENUM, INT32, DOUBLE, BYTES = 9, 3, 11, 14, 5, 1, 12


def file_descriptor() -> Any:
    file = FileDescriptorProto(
        name="plant.proto",
        package="plant",
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"],
    )
    kinds = file.enum_type.add(name="Kind")
    for number, symbol in enumerate(("READING", "STATUS")):
        kinds.value.add(name=symbol, number=number)
    message = file.message_type.add(name="Telemetry")
    _add(message, "device", 1, STRING)
    _add(message, "n", 2, INT64)
    _add(message, "at", 3, MESSAGE, type_name=".google.protobuf.Timestamp")
    _add(message, "kind", 4, ENUM, type_name=".plant.Kind")
    message.oneof_decl.add(name="_boot")
    _add(message, "boot", 5, INT32, proto3_optional=True, oneof_index=0)
    _add(message, "value", 6, DOUBLE)
    _add(message, "raw", 7, BYTES)
    _add(message, "more", 8, DOUBLE, label=FieldDescriptorProto.LABEL_REPEATED)
    entry = message.nested_type.add(name="NamesEntry")
    entry.options.map_entry = True
    _add(entry, "key", 1, INT32)
    _add(entry, "value", 2, STRING)
    repeated = FieldDescriptorProto.LABEL_REPEATED
    _add(message, "names", 9, MESSAGE, type_name=".plant.Telemetry.NamesEntry", label=repeated)
    _add(message, "maybe", 10, MESSAGE, type_name=".google.protobuf.Int64Value")
    _add(message, "inner", 11, MESSAGE, type_name=".plant.Telemetry")
    nested = message.nested_type.add(name="Nested")
    _add(nested, "word", 1, STRING)
    _add(message, "nested", 12, MESSAGE, type_name=".plant.Telemetry.Nested", label=repeated)
    return file


def _add(message: Any, name: str, number: int, type_: int, **more: Any) -> None:
    label = more.pop("label", FieldDescriptorProto.LABEL_OPTIONAL)
    message.field.add(name=name, number=number, type=type_, label=label, **more)


def message_class() -> Any:
    pool = DescriptorPool()
    for module in (timestamp_pb2, wrappers_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file_descriptor().SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("plant.Telemetry"))


def descriptor_set(*, with_imports: bool = True) -> bytes:
    found = FileDescriptorSet()
    if with_imports:
        for module in (timestamp_pb2, wrappers_pb2):
            found.file.add().ParseFromString(module.DESCRIPTOR.serialized_pb)
    found.file.append(file_descriptor())
    return bytes(found.SerializeToString())
