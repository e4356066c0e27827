"""The keys of signed streams, in writing: what sources sign with, and the masters these come from.

A key contains what it is for, so that it is not used for another: `source HEX press-7`, or
`prefix HEX press-` for a gateway that signs for all sources whose names begin so. `inorder keys`
makes them of a master key; `inorder.signature` defines how, and what is signed.

A file of masters has one a line, the newest first. The newest makes keys, each of them is believed:
so a master is exchanged without a gap. Put the new one first, give sources keys of it, take the old
one away when nothing that it signed is still to be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from inorder.contract import MAX_SOURCE_BYTES, HeaderNames
from inorder.signature import (
    ALGORITHM,
    PREFIX,
    SOURCE,
    Mac,
    Scope,
    derived,
    signed_content,
    signed_names,
)

MIN_MASTER_BYTES: Final = 16
MAX_MASTER_BYTES: Final = 64
MAX_MASTERS: Final = 4
"""As many as are in use while one takes another's place; each may cost a try for a forged event."""

MAX_FILE_BYTES: Final = 64 << 10
KEY_BYTES: Final = 32
KEY_FORM: Final = "`source HEX press-7` or `prefix HEX press-`, as `inorder keys` prints it"
MASTER_FORM: Final = "32 to 128 hex digits a line (`openssl rand -hex 32`)"


class BadSigningKey(ValueError):
    """Keys that cannot be used: which, why, and what to write instead. Shows no secret."""


class SigningKey:
    """What a source, or a gateway for the sources of a prefix, signs with.

    Made by `parse` and `read` from what `inorder keys` prints, or of a key's 32 bytes. `repr`
    shows what it is for and not the key.
    """

    __slots__ = ("_begins", "_mac", "_name", "name", "scope")

    def __init__(self, scope: Scope, name: str, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise BadSigningKey(f"a signing key has {KEY_BYTES} bytes, this one {len(key)}")
        self.scope = scope
        self.name = name
        self._name = name.encode()
        if len(self._name) > MAX_SOURCE_BYTES or (scope == SOURCE and not name):
            raise BadSigningKey(f"the name of a {scope} has at most {MAX_SOURCE_BYTES} bytes")
        self._begins = ALGORITHM + (b"%d:" % len(self._name) if scope == PREFIX else b"")
        self._mac = Mac(key)

    @classmethod
    def parse(cls, text: str) -> SigningKey:
        """BadSigningKey states what to write instead."""
        scope, _, rest = text.strip("\r\n").partition(" ")
        digits, space, name = rest.partition(" ")
        if scope not in {SOURCE, PREFIX} or not space:
            raise BadSigningKey(f"this is no signing key; write {KEY_FORM}")
        try:
            key = bytes.fromhex(digits)
        except ValueError:
            raise BadSigningKey(
                f"the key of {scope} {name!r} is not hex; write {KEY_FORM}"
            ) from None
        return cls("source" if scope == SOURCE else "prefix", name, key)

    @classmethod
    def read(cls, path: Path | str) -> SigningKey:
        """From a file of one line. BadSigningKey, also where it cannot be read."""
        return cls.parse(content_of(path))

    def __repr__(self) -> str:
        return f"SigningKey({self.scope} {self.name!r})"

    def speaks_for(self, source: str) -> bool:
        return source == self.name if self.scope == SOURCE else source.startswith(self.name)

    def signature(
        self,
        names: HeaderNames,
        headers: Sequence[tuple[str, str | bytes | None]],
        value: bytes | None,
    ) -> bytes:
        """The value of the header `sig` for a record with these headers, each but once."""
        found = {name: v.encode() if isinstance(v, str) else v for name, v in headers}
        tag = self._mac.tag(signed_content(signed_names(names), found, value))
        return self._begins + tag.hex().encode()


def signing_key(master: bytes, scope: Scope, name: str) -> str:
    """The key in writing, for who is to sign."""
    return f"{scope} {derived(master, scope, name.encode()).hex()} {name}"


def masters_of(text: str) -> tuple[bytes, ...]:
    """Master keys, one a line, the newest first; empty lines and lines with `#` are skipped.
    BadSigningKey names the line."""
    found: list[bytes] = []
    for number, line in enumerate(text.splitlines(), start=1):
        digits = line.strip()
        if not digits or digits.startswith("#"):
            continue
        try:
            master = bytes.fromhex(digits)
        except ValueError:
            raise BadSigningKey(f"line {number} is not hex; write {MASTER_FORM}") from None
        if not MIN_MASTER_BYTES <= len(master) <= MAX_MASTER_BYTES:
            raise BadSigningKey(
                f"the master key of line {number} has {len(master)} bytes; write {MASTER_FORM}"
            )
        if master in found:
            raise BadSigningKey(f"line {number} has a master key again; leave one of them")
        found.append(master)
    if not found:
        raise BadSigningKey(f"there is no master key; write {MASTER_FORM}")
    if len(found) > MAX_MASTERS:
        raise BadSigningKey(
            f"{len(found)} master keys are too many; leave those that sources still sign with, at"
            f" most {MAX_MASTERS}"
        )
    return tuple(found)


def content_of(
    path: Path | str, most_bytes: int = MAX_FILE_BYTES, bad: type[ValueError] = BadSigningKey
) -> str:
    """Return a key file's text; raise `bad` where it cannot be read or is none."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(most_bytes + 1)
        if len(content) > most_bytes:
            raise bad(f"{path}: larger than {most_bytes} bytes; that is no key file")
        return content.decode("utf-8")
    except OSError as error:
        raise bad(f"{path}: {error.strerror}; give a readable key file") from error
    except UnicodeDecodeError as error:
        raise bad(f"{path}: not UTF-8 text; give a key file") from error
