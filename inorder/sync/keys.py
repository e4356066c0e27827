"""Read the key file of time sync, which assigns keys to sources, and sign packets.

The file is TOML, the same on the server's side and the source's, with a table for each key:

    [[key]]
    id = 7
    secret = "HEX"
    sources = ["press-7", "press 8"]

`id` is 1 to 4294967295. The secret is random, 16 to 64 bytes, as 32 to 128 hex digits. `openssl
rand -hex 32` makes one. A key without `sources` is a *group key*, for every source that no other
key names.

A source may have several keys, and it signs with the last one in the file. So keys can be replaced
without interruption: add, distribute, remove. The owner of a group key can sign for any source of
the group.

A signature is the first 16 bytes of the HMAC-SHA-256 of the packet's first 160 bytes.

Without keys (`KeyRing.open_to_all`) everybody can send packets in the name of any source. This is
for loopback, and for networks in which that does not matter.
"""

from __future__ import annotations

import hmac
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from inorder.signature import Mac
from inorder.signing_keys import read_key_file
from inorder.sync.packet import BODY_SIZE, MAX_UINT32, NO_KEY, NO_SEAL, source_fault

MIN_SECRET_BYTES: Final = 16
MAX_SECRET_BYTES: Final = 64
MAX_FILE_BYTES: Final = 64 << 20

FORM: Final = '[[key]], id = 7, secret = "HEX", sources = ["press-7"]'
"""An example of a table in the key file, for error messages."""


class BadKeys(ValueError):
    """The key file cannot be used; the message says where, why, and what to write."""


class Key:
    """A secret key that signs packets and the server's cookies."""

    __slots__ = ("id", "seal")

    def __init__(self, key_id: int, secret: bytes) -> None:
        """Prepare the hashes of the secret."""
        self.id = key_id
        self.seal = Mac(secret).tag

    def sign(self, body: bytes) -> bytes:
        """Return the complete packet: `body` followed by its signature."""
        return body + self.seal(body)

    def has_signed(self, raw: bytes) -> bool:
        """Return whether the signature of a complete packet is by this key."""
        return hmac.compare_digest(self.seal(raw[:BODY_SIZE]), raw[BODY_SIZE:])


class NoKey(Key):
    """The key that is used without a key file: it signs packets with zeros."""

    __slots__ = ()

    def __init__(self) -> None:
        """Use the key id that means "no key"."""
        super().__init__(NO_KEY, bytes(MIN_SECRET_BYTES))

    def sign(self, body: bytes) -> bytes:
        """Return the complete packet: `body` followed by zeros as its signature."""
        return body + NO_SEAL

    def has_signed(self, raw: bytes) -> bool:
        """Return whether the signature of a complete packet consists of zeros."""
        return raw[BODY_SIZE:] == NO_SEAL


class GivenKey(NamedTuple):
    """A key given in code; without sources it is a group key."""

    id: int
    secret: bytes
    sources: Sequence[str] = ()


def _parse_tables(content: str) -> list[dict[str, Any]]:
    """Return the checked tables of the file.

    Raises:
        BadKeys: The file has other content, or a key lacks a field or has an invalid one.
        TOMLDecodeError: The file is not TOML.
    """
    document = tomllib.loads(content)
    _refuse_others(document, {"key"}, "the file")
    tables: Any = document.get("key", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise BadKeys("`key` is not a list of tables")
    for number, table in enumerate(tables, 1):
        _check(table, f"table {number}")
    return list(tables)


def _check(table: Mapping[str, Any], where: str) -> None:
    _refuse_others(table, set(GivenKey._fields), where)
    for field in ("id", "secret"):
        if field not in table:
            raise BadKeys(f"{where}: `{field}` is missing")
    key_id, sources = table["id"], table.get("sources", [])
    if not isinstance(key_id, int) or isinstance(key_id, bool) or not 1 <= key_id <= MAX_UINT32:
        raise BadKeys(f"{where}: `id` is not an integer from 1 to {MAX_UINT32}")
    if not isinstance(table["secret"], str):
        raise BadKeys(f"{where}: `secret` is not text")
    if not isinstance(sources, list) or not all(isinstance(source, str) for source in sources):
        raise BadKeys(f"{where}: `sources` is not a list of names")


def _refuse_others(table: Mapping[str, object], known: set[str], where: str) -> None:
    if unknown := sorted(set(table) - known):
        raise BadKeys(f"{where}: {unknown[0]!r} is not allowed here")


class KeyRing:
    """All keys of a file.

    Args:
        keys: The keys by id.
        of_source: The ids of each source's keys. The source signs with the last one.
    """

    def __init__(self, keys: Mapping[int, Key], of_source: Mapping[str, tuple[int, ...]]) -> None:
        """Store the keys, and find the group keys."""
        self._keys = dict(keys)
        self._of_source = dict(of_source)
        named = {key_id for ids in self._of_source.values() for key_id in ids}
        self._of_groups = tuple(key_id for key_id in self._keys if key_id not in named)

    @classmethod
    def open_to_all(cls) -> Self:
        """Return a ring that admits every source without authentication."""
        return cls({NO_KEY: NoKey()}, {})

    @classmethod
    def read(cls, path: Path | str) -> Self:
        """Return the keys of a file.

        Args:
            path: The file.

        Raises:
            BadKeys: The file cannot be used. The message names the key and says what to write.
        """
        return cls.parse(read_key_file(path, MAX_FILE_BYTES, BadKeys), str(path))

    @classmethod
    def parse(cls, content: str, name: str = "keys") -> Self:
        """Return the keys in the text of a key file.

        Args:
            content: The text.
            name: The name of the file for messages, which show no secret.

        Raises:
            BadKeys: The text cannot be used.
        """
        try:
            tables = _parse_tables(content)
        except (tomllib.TOMLDecodeError, BadKeys) as error:
            raise BadKeys(f"{name}: {error}; write each key as: {FORM}") from None
        if not tables:
            raise BadKeys(f"{name}: contains no key; write each as: {FORM}")
        try:
            return cls.holding(_read_key(table) for table in tables)
        except BadKeys as error:
            raise BadKeys(f"{name}: {error}") from None

    @classmethod
    def holding(cls, given: Iterable[GivenKey]) -> Self:
        """Return a ring of the given keys, in the order that they would have in a file.

        Args:
            given: The keys.

        Raises:
            BadKeys: An id is used twice, or a source's name is invalid.
        """
        keys: dict[int, Key] = {}
        of_source: dict[str, tuple[int, ...]] = {}
        for key_id, secret, sources in given:
            if key_id in keys:
                raise BadKeys(f"key {key_id} occurs twice; give each key its own id")
            keys[key_id] = Key(key_id, secret)
            for source in dict.fromkeys(sources):
                if fault := source_fault(source):
                    raise BadKeys(f"key {key_id}: {fault}")
                of_source[source] = (*of_source.get(source, ()), key_id)
        return cls(keys, of_source)

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._keys)

    def key(self, key_id: int) -> Key | None:
        """Return the key with this id, or None if there is none."""
        return self._keys.get(key_id)

    def admits(self, key_id: int, source: str) -> bool:
        """Return whether the key with this id may sign for a source."""
        own = self._of_source.get(source)
        return key_id in (self._of_groups if own is None else own)

    def of(self, source: str) -> Key:
        """Return the key with which a source signs.

        Args:
            source: The name of the source.

        Raises:
            BadKeys: The source has no key.
        """
        ids = self._of_source.get(source) or self._of_groups
        if not ids:
            raise BadKeys(
                f"no key for source {source!r}; add it to the `sources` of a key in the key file,"
                " or a key without `sources` for all"
            )
        return self._keys[ids[-1]]


def _read_key(table: Mapping[str, Any]) -> GivenKey:
    key_id, sources = table["id"], table.get("sources", ())
    if sources == []:
        raise BadKeys(
            f"key {key_id}: `sources` is empty; name one, or leave it out for a group key"
        )
    return GivenKey(key_id, _parse_secret(table["secret"], key_id), sources)


def _parse_secret(digits: str, key_id: int) -> bytes:
    # Messages may be logged, so they never show the given text.
    try:
        secret = bytes.fromhex(digits)
    except ValueError:
        raise BadKeys(
            f"the secret of key {key_id} is not hex; make one with: openssl rand -hex 32"
        ) from None
    if not MIN_SECRET_BYTES <= len(secret) <= MAX_SECRET_BYTES:
        raise BadKeys(
            f"the secret of key {key_id} has {len(secret)} bytes, not {MIN_SECRET_BYTES} to"
            f" {MAX_SECRET_BYTES}; make one with: openssl rand -hex 32"
        )
    return secret
