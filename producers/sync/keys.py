"""Who may speak for which source: the key file, and signatures.

A line of the file, the same on the server's side and the source's:

    KEY-ID  HEX-SECRET  [SOURCE ...]      # a comment

KEY-ID is 1 to 4294967295. The secret is random, 16 to 64 bytes, as 32 to 128 hex digits
(`openssl rand -hex 32`). The sources it is for follow, in quotes where they hold blanks;
without any it is a *group key*: for every source that no other line names. A source may
have several keys, the last one is what it uses itself; so keys are exchanged without a
gap: add, distribute, remove. Who holds a group key can speak for any source of the group.

A comment begins with a `#` that is the first of its line or has a blank on both sides; one
in quotes belongs to a name. Any other is refused: to read `1 SECRET #5` as a comment would
make a group key of a source's own.

A signature is HMAC-SHA-256 of the packet's first 160 bytes, its first 16 bytes kept.

Without keys (`KeyRing.open_to_all`) everybody may speak for everybody: for loopback, and
for networks in which that is so anyway.
"""

from __future__ import annotations

import hmac
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from producers.sync.packet import BODY_SIZE, MAX_UINT32, NO_KEY, NO_SEAL, source_fault

SEAL_SIZE: Final = 16
MIN_SECRET_BYTES: Final = 16
MAX_SECRET_BYTES: Final = 64
MAX_FILE_BYTES: Final = 64 << 20

_BLANKS: Final = " \t"
_QUOTED: Final = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*\"""")
"""What shlex takes as it stands."""


class BadKeys(ValueError):
    """A key file that cannot be used: where, what, and what to write instead."""


class Key:
    """A secret, ready to seal and sign with."""

    __slots__ = ("_begun", "id")

    def __init__(self, key_id: int, secret: bytes) -> None:
        self.id = key_id
        self._begun = hmac.new(secret, digestmod="sha256")

    def seal(self, content: bytes) -> bytes:
        """The first 16 bytes of the HMAC-SHA-256."""
        mac = self._begun.copy()
        mac.update(content)
        return mac.digest()[:SEAL_SIZE]

    def signed(self, body: bytes) -> bytes:
        """The whole packet of this body."""
        return body + self.seal(body)

    def has_signed(self, raw: bytes) -> bool:
        """Whether a whole packet bears its signature."""
        return hmac.compare_digest(self.seal(raw[:BODY_SIZE]), raw[BODY_SIZE:])


class NoKey(Key):
    """In place of a key where there is none: packets are signed with zeros."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(NO_KEY, bytes(MIN_SECRET_BYTES))

    def signed(self, body: bytes) -> bytes:
        return body + NO_SEAL

    def has_signed(self, raw: bytes) -> bool:
        return raw[BODY_SIZE:] == NO_SEAL


class KeyRing:
    """All keys of a file. `of_source`: source to its keys' ids, the last one its own."""

    def __init__(self, keys: Mapping[int, Key], of_source: Mapping[str, tuple[int, ...]]) -> None:
        self._keys = dict(keys)
        self._of_source = dict(of_source)
        named = {key_id for ids in self._of_source.values() for key_id in ids}
        self._of_groups = tuple(key_id for key_id in self._keys if key_id not in named)

    @classmethod
    def open_to_all(cls) -> Self:
        """No authentication at all."""
        return cls({NO_KEY: NoKey()}, {})

    @classmethod
    def read(cls, path: Path | str) -> Self:
        """BadKeys names the line and what to write."""
        try:
            content = _content(Path(path))
        except OSError as error:
            raise BadKeys(f"{path}: {error.strerror}; give a readable key file") from error
        except UnicodeDecodeError as error:
            raise BadKeys(f"{path}: not UTF-8 text; give a key file") from error
        return cls.parse(content, str(path))

    @classmethod
    def parse(cls, content: str, name: str = "keys") -> Self:
        """`content` as in the file; `name` is for messages."""
        keys: dict[int, Key] = {}
        of_source: dict[str, tuple[int, ...]] = {}
        for number, line in enumerate(content.splitlines(), start=1):
            try:
                words = shlex.split(_uncommented(line))
                if words:
                    _add(words, keys, of_source)
            except ValueError as error:
                raise BadKeys(f"{name}, line {number}: {error}") from None
        if not keys:
            raise BadKeys(f"{name}: no key in it; write lines of: KEY-ID HEX-SECRET [SOURCE ...]")
        return cls(keys, of_source)

    def __len__(self) -> int:
        return len(self._keys)

    def key(self, key_id: int) -> Key | None:
        return self._keys.get(key_id)

    def admits(self, key_id: int, source: str) -> bool:
        """Whether this key may speak for this source."""
        own = self._of_source.get(source)
        return key_id in (self._of_groups if own is None else own)

    def of(self, source: str) -> Key:
        """What the source signs with. BadKeys if there is none."""
        ids = self._of_source.get(source) or self._of_groups
        if not ids:
            raise BadKeys(
                f"no key for source {source!r}; add it to the end of a line of the key file, or a"
                " line without sources for all"
            )
        return self._keys[ids[-1]]


def _content(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise BadKeys(f"{path}: larger than {MAX_FILE_BYTES} bytes; that is no key file")
    return content.decode("utf-8")


def _uncommented(line: str) -> str:
    bare = _QUOTED.sub(lambda quoted: "x" * len(quoted[0]), line)
    before, sign, after = bare.partition("#")
    if not sign:
        return line
    stands_alone = before[-1:] in _BLANKS and after[:1] in _BLANKS  # an end is as good as a blank
    if before.strip(_BLANKS) and not stands_alone:
        # The word itself is not told: it may be the secret.
        raise ValueError(
            "a '#' next to other characters; for a comment write a blank before and after it,"
            " and if it belongs to a source's name put the name in quotes"
        )
    return line[: len(before)]


def _add(words: list[str], keys: dict[int, Key], of_source: dict[str, tuple[int, ...]]) -> None:
    if len(words) < 2:
        raise ValueError("a key without a secret; write: KEY-ID HEX-SECRET [SOURCE ...]")
    key_id = _key_id(words[0])
    if key_id in keys:
        raise ValueError(f"key {key_id} stands here twice; give each line an id of its own")
    keys[key_id] = Key(key_id, _secret(words[1], key_id))
    for source in dict.fromkeys(words[2:]):
        if fault := source_fault(source):
            raise ValueError(fault)
        of_source[source] = (*of_source.get(source, ()), key_id)


def _key_id(word: str) -> int:
    if word.isascii() and word.isdigit() and 1 <= int(word[:11]) <= MAX_UINT32:
        return int(word)
    raise ValueError(f"{word[:40]!r} is no key id; write a whole number from 1 to {MAX_UINT32}")


def _secret(word: str, key_id: int) -> bytes:
    # The word itself is never told: messages end in logs.
    try:
        secret = bytes.fromhex(word)
    except ValueError:
        raise ValueError(
            f"the secret of key {key_id} is not hex; make one with: openssl rand -hex 32"
        ) from None
    if not MIN_SECRET_BYTES <= len(secret) <= MAX_SECRET_BYTES:
        raise ValueError(
            f"the secret of key {key_id} has {len(secret)} bytes, not {MIN_SECRET_BYTES} to"
            f" {MAX_SECRET_BYTES}; make one with: openssl rand -hex 32"
        )
    return secret
