"""Decodes values that begin with a registry's five bytes: 0, then the schema's id, big-endian.

`agents.registry.feed` resolves the ids before a batch is read, and fills `RegisteredSchemas`.
Values of other schemas are dead letters with the reason `schema_unknown`. At most `MAX_SCHEMAS` are
kept, which no sound topic exceeds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from topology.records.values import UNDECODABLE, Decode, ValueFault

MAX_SCHEMAS: Final = 2_000
PREFIX_BYTES: Final = 5
SCHEMA_UNKNOWN: Final = "schema_unknown"
SCHEMA_REFUSED: Final = "schema_refused"


def schema_id(value: bytes) -> int | None:
    """Return the id in the five bytes; None if the value does not begin with them."""
    if len(value) < PREFIX_BYTES or value[0] != 0:
        return None
    return int.from_bytes(value[1:PREFIX_BYTES], "big")


def strip_prefix(value: bytes | None) -> bytes | None:
    """Return the value without the five bytes, if it has them; no text begins with 0."""
    return value if value is None or schema_id(value) is None else value[PREFIX_BYTES:]


class Decoders(NamedTuple):
    """The decoders of values and of keys by one schema.

    They differ if the stream has a reader's schema, which is for values only.
    """

    values: Decode
    keys: Decode


class RegisteredSchemas:
    """The known schemas of one input topic, by id.

    Attributes:
        subjects: Subjects whose schemas are accepted, None for any.
        reader: The text of the Avro schema to which values are resolved, None for none.
        in_values: Whether values have a registry's five bytes.
        in_keys: Whether keys have a registry's five bytes.
    """

    def __init__(
        self,
        registry: str,
        subjects: Collection[str] | None,
        *,
        reader: str | None = None,
        in_values: bool = True,
        in_keys: bool = False,
    ) -> None:
        self.registry = registry
        self.reader = reader
        self._subjects = None if subjects is None else frozenset(subjects)
        self._in_values = in_values
        self._in_keys = in_keys
        self._decoders: dict[int, Decoders] = {}
        self._faults: dict[int, ValueFault] = {}

    def is_accepted(self, subjects: Collection[str]) -> bool:
        """Return whether a schema that is registered under these subjects is accepted."""
        return self._subjects is None or not self._subjects.isdisjoint(subjects)

    def parts(self, value: bytes | None, key: bytes | None) -> Iterable[bytes | None]:
        """Yield the parts of a record that name a schema."""
        if self._in_values:
            yield value
        if self._in_keys:
            yield key

    def find_unresolved(self, values: Iterable[bytes | None]) -> list[int]:
        """Return the ids in these values that have no decoder yet, ascending."""
        ids = {schema_id(value) for value in values if value is not None} - {None}
        return sorted(each for each in ids if each is not None and each not in self._decoders)

    def learn(self, number: int, decoders: Decoders) -> None:
        """Add the decoders of schema `number`, which decode the bytes after the first five."""
        if len(self._decoders) < MAX_SCHEMAS:
            self._decoders[number] = decoders
            self._faults.pop(number, None)

    def refuse(self, number: int, fault: ValueFault) -> None:
        """Record why values of this schema are dead letters; at the limit, forget the oldest."""
        if len(self._faults) >= MAX_SCHEMAS:
            del self._faults[next(iter(self._faults))]
        self._faults[number] = fault

    def decode(self, value: bytes | None) -> object:
        """Decode a value by the schema that it names; raise ValueFault if that fails."""
        return None if value is None else self._find_decoders(value).values(value[PREFIX_BYTES:])

    def decode_key(self, key: bytes | None) -> object:
        """Decode a key by the schema that it names; raise ValueFault if that fails."""
        return None if key is None else self._find_decoders(key).keys(key[PREFIX_BYTES:])

    def _find_decoders(self, value: bytes) -> Decoders:
        number = schema_id(value)
        if number is None:
            raise ValueFault(
                UNDECODABLE,
                "the value does not begin with a registry's five bytes; set schema: {file: …}"
                " if values have no such prefix, or the format that they have",
            )
        decoders = self._decoders.get(number)
        if decoders is None:
            raise self._faults.get(number) or make_unknown_fault(number, self.registry)
        return decoders


def make_unknown_fault(number: int, registry: str) -> ValueFault:
    return ValueFault(SCHEMA_UNKNOWN, f"{registry} has no schema {number}; register it there")
