"""Read the values of a file that is neither text nor Parquet.

* An Avro object container file (`.avro`) contains its schema, which is used to read it. Its blocks
  may be compressed by deflate, snappy or zstandard.
* Other values in Avro or Protobuf follow one another. Each comes after its length as a varint, as
  Protobuf's `writeDelimitedTo` writes it. The caller passes the function that decodes one.

A value that does not fit its schema is a fault, and reading continues. If the file itself is
damaged, the start of the next value is unknown, so an `InputError` is raised.

Bounds: `MAX_VALUE_BYTES`; `MAX_BLOCK_BYTES` for a block of a container, compressed or not;
`MAX_HEADER_BYTES`.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Final, NamedTuple

from codec.values.schema_fault import SchemaFault
from recordings.file import AVRO_MARK, InputError
from topology.records.reasons import WireFault
from topology.records.values import UNDECODABLE, Decode, ValueFault

MAX_VALUE_BYTES: Final = 64 << 20
MAX_BLOCK_BYTES: Final = 256 << 20
MAX_HEADER_BYTES: Final = 16 << 20
MAX_VARINT_BYTES: Final = 10
SYNC_BYTES: Final = 16
CRC_BYTES: Final = 4
RAW_DEFLATE: Final = -15


class FileEncoding(NamedTuple):
    """The encoding of the values of a file that is not text.

    Attributes:
        format: The name of the encoding.
        decode: The function that decodes one value; None if the file contains its schema.
        reader: The text of the Avro schema to which the values of such a file are resolved, if any.
    """

    format: str
    decode: Decode | None
    reader: str | None = None


def delimited_values(
    raw: IO[bytes], path: str, decode: Decode
) -> Iterator[tuple[bytes, object | WireFault]]:
    """Yield the bytes of each value with the decoded value, or with its fault."""
    for number in _count_from(1):
        length = _read_varint(raw)
        if length is None:
            return
        value = raw.read(length) if 0 <= length <= MAX_VALUE_BYTES else b""
        if len(value) != length:
            raise InputError(
                f"{path}: value {number} does not have its stated length of {length} bytes; write"
                " each value after its length as a varint, as Protobuf's writeDelimitedTo does"
            )
        try:
            yield value, decode(value)
        except ValueFault as fault:
            yield value, WireFault(fault.reason, fault.detail)


def _count_from(number: int) -> Iterator[int]:
    while True:
        yield number
        number += 1


def _read_varint(raw: IO[bytes]) -> int | None:
    """Return the next varint; None at the end of the file, -1 if the bytes are not a varint."""
    number = 0
    for place in range(MAX_VARINT_BYTES):
        byte = raw.read(1)
        if not byte:
            return None if place == 0 else -1
        number |= (byte[0] & 0x7F) << (7 * place)
        if byte[0] < 0x80:
            return number
    return -1


# -- containers ------------------------------------------------------------------------------------


def container_values(
    raw: IO[bytes], path: str, reader: str | None = None
) -> Iterator[object | WireFault]:
    """Yield the values of an Avro object container file, resolved to the schema `reader`."""
    from codec.values import avro

    header = _read_header(raw, path)
    try:
        to_schema = None if reader is None else avro.parse(reader)
        read_next = avro.make_reader(avro.parse(header["avro.schema"].decode()), to_schema)
        unpacked = UNPACKED[header.get("avro.codec", b"null").decode()]
    except (SchemaFault, UnicodeDecodeError) as fault:
        raise InputError(f"{path}: its schema {fault}") from None
    except KeyError as missing:
        codecs = ", ".join(UNPACKED)
        raise InputError(
            f"{path}: no {missing}; an Avro file needs a schema and one of {codecs}"
        ) from None
    for number in _count_from(1):
        count = _read_varint(raw)
        if count is None:
            return
        content = _read_block(raw, path, number, header["sync"], unpacked)
        if not 0 <= _decode_zigzag(count) <= len(content):
            raise InputError(f"{path}: block {number} of the Avro file has more values than bytes")
        block = io.BytesIO(content)
        for _ in range(_decode_zigzag(count)):
            try:
                yield read_next(block)
            except ValueFault as fault:
                # The next value begins at the end of this one, and that position is unknown.
                yield WireFault(fault.reason, f"{fault.detail} (the rest of block {number} too)")
                break
        else:
            if block.read(1):
                detail = f"there are bytes after the values of block {number}"
                yield WireFault(UNDECODABLE, detail)


def _read_header(raw: IO[bytes], path: str) -> dict[str, bytes]:
    """Return the metadata of the file, and its `sync` marker."""
    damaged = f"{path}: damaged Avro (its header ends too early); fetch it again"
    if raw.read(len(AVRO_MARK)) != AVRO_MARK:
        raise InputError(
            f"{path}: is not an Avro container file; for length-delimited Avro values add --format"
            " avro --schema FILE, and give the file a name that does not end in .avro"
        )
    found: dict[str, bytes] = {}
    size = 0
    while count := _decode_zigzag(_read_varint(raw) or 0):
        if count < 0:
            _read_varint(raw)  # This number is the size of the block in bytes.
        for _ in range(abs(count)):
            texts = []
            for _ in range(2):
                length = _decode_zigzag(_read_varint(raw) or 0)
                size += length
                if length < 0 or size > MAX_HEADER_BYTES or len(text := raw.read(length)) < length:
                    raise InputError(damaged)
                texts.append(text)
            if not texts[0]:
                raise InputError(damaged)
            found[texts[0].decode("utf-8", "replace")] = texts[1]
    found["sync"] = raw.read(SYNC_BYTES)
    if len(found["sync"]) < SYNC_BYTES:
        raise InputError(damaged)
    return found


def _read_block(
    raw: IO[bytes], path: str, number: int, sync: bytes, unpacked: Callable[[bytes], bytes]
) -> bytes:
    size = _decode_zigzag(_read_varint(raw) or 0)
    if not 0 <= size <= MAX_BLOCK_BYTES:
        raise InputError(
            f"{path}: block {number} has {size} bytes, but at most {MAX_BLOCK_BYTES} are allowed;"
            " write smaller blocks"
        )
    packed = raw.read(size)
    if len(packed) < size or raw.read(SYNC_BYTES) != sync:
        raise InputError(f"{path}: damaged Avro (block {number} ends too early); fetch it again")
    try:
        return unpacked(packed)
    except (ValueError, zlib.error) as wrong:
        raise InputError(f"{path}: block {number} of the Avro file: {wrong}") from None


def _decode_zigzag(number: int) -> int:
    return (number >> 1) ^ -(number & 1)


def _inflate(packed: bytes) -> bytes:
    unpacking = zlib.decompressobj(RAW_DEFLATE)
    content = unpacking.decompress(packed, MAX_BLOCK_BYTES)
    if unpacking.unconsumed_tail:
        raise ValueError(f"it takes more than {MAX_BLOCK_BYTES} bytes unpacked")
    return content


def _decompress(name: str, packed: bytes) -> bytes:
    """Return the bytes uncompressed by the library `name`.

    Raises:
        ValueError: The bytes cannot be uncompressed, or are too many.
    """
    from codec.compression import BY_NAME, NotUnpacked, decompress

    try:
        return decompress(BY_NAME[name], packed, MAX_BLOCK_BYTES)
    except NotUnpacked as wrong:
        raise ValueError(str(wrong).replace("the batch", "it")) from None


UNPACKED: Final[dict[str, Callable[[bytes], bytes]]] = {
    "null": lambda packed: packed,
    "deflate": _inflate,
    "snappy": lambda packed: _decompress("snappy", packed[:-CRC_BYTES]),
    "zstandard": lambda packed: _decompress("zstd", packed),
}
