"""Read and write the keys of signed streams: the keys that sources sign with, and the master keys.

A key includes its scope, so that it is not used for another: `source HEX press-7`, or `prefix HEX
press-` for a gateway that signs for all sources whose names begin with `press-`. `inorder keys`
derives them from a master key. `inorder.signature` defines the derivation and the signed content.

A file of master keys has one key per line, the newest first. The newest derives new keys, and
signatures of all of them are accepted. So a master key can be replaced without interruption. Put
the new one first, and give sources keys derived from it. Remove the old one when no unread record
has its signature.
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
    derive,
    signed_content,
    signed_names,
)

MIN_MASTER_BYTES: Final = 16
MAX_MASTER_BYTES: Final = 64
MAX_MASTERS: Final = 4
"""The maximum number of master keys, which is enough for replacing keys.

Each master key may add one check to the cost of a forged event.
"""

MAX_FILE_BYTES: Final = 64 << 10
KEY_BYTES: Final = 32
KEY_FORM: Final = "`source HEX press-7` or `prefix HEX press-`, as `inorder keys` prints it"
MASTER_FORM: Final = "32 to 128 hex digits a line (`openssl rand -hex 32`)"


class BadSigningKey(ValueError):
    """The key cannot be used.

    The message says which key, why, and what to write. It contains no secret.
    """


class SigningKey:
    """A key with which a source signs, or a gateway for the sources of a prefix.

    `parse` and `read` create it from the output of `inorder keys`. `repr` shows the scope and the
    name, but not the key.

    Args:
        scope: `source` or `prefix`.
        name: The source, or the prefix of sources' names.
        key: The 32 bytes of the key.
    """

    __slots__ = ("_begins", "_mac", "_name", "name", "scope")

    def __init__(self, scope: Scope, name: str, key: bytes) -> None:
        """Check the name and the key.

        Raises:
            BadSigningKey: The key has a wrong length, or the name is too long or empty.
        """
        if len(key) != KEY_BYTES:
            raise BadSigningKey(f"a signing key has {KEY_BYTES} bytes, but this one has {len(key)}")
        self.scope = scope
        self.name = name
        self._name = name.encode()
        if len(self._name) > MAX_SOURCE_BYTES or (scope == SOURCE and not name):
            raise BadSigningKey(f"the name of a {scope} has at most {MAX_SOURCE_BYTES} bytes")
        self._begins = ALGORITHM + (b"%d:" % len(self._name) if scope == PREFIX else b"")
        self._mac = Mac(key)

    @classmethod
    def parse(cls, text: str) -> SigningKey:
        """Return the key in a line of the output of `inorder keys`.

        Args:
            text: The line.

        Raises:
            BadSigningKey: The text is not a key. The message says what to write instead.
        """
        scope, _, rest = text.strip("\r\n").partition(" ")
        digits, space, name = rest.partition(" ")
        if scope not in {SOURCE, PREFIX} or not space:
            raise BadSigningKey(f"this is not a signing key; write {KEY_FORM}")
        try:
            key = bytes.fromhex(digits)
        except ValueError:
            raise BadSigningKey(
                f"the key of {scope} {name!r} is not hex; write {KEY_FORM}"
            ) from None
        return cls("source" if scope == SOURCE else "prefix", name, key)

    @classmethod
    def read(cls, path: Path | str) -> SigningKey:
        """Return the key in a file of one line.

        Args:
            path: The file.

        Raises:
            BadSigningKey: The file cannot be read, or contains no key.
        """
        return cls.parse(read_key_file(path))

    def __repr__(self) -> str:
        """Return the scope and the name, without the key."""
        return f"SigningKey({self.scope} {self.name!r})"

    def speaks_for(self, source: str) -> bool:
        """Return whether the key may sign for a source."""
        return source == self.name if self.scope == SOURCE else source.startswith(self.name)

    def signature(
        self,
        names: HeaderNames,
        headers: Sequence[tuple[str, str | bytes | None]],
        value: bytes | None,
    ) -> bytes:
        """Return the value of the header `sig` for a record.

        Args:
            names: The names of the contract's headers.
            headers: The headers of the record, without repetition.
            value: The record's value.
        """
        found = {name: v.encode() if isinstance(v, str) else v for name, v in headers}
        tag = self._mac.tag(signed_content(signed_names(names), found, value))
        return self._begins + tag.hex().encode()


def signing_key(master: bytes, scope: Scope, name: str) -> str:
    """Return a derived key as a line of text, for the source or gateway that signs with it.

    Args:
        master: The master key.
        scope: Whether `name` is a source or a prefix.
        name: The source, or the prefix.
    """
    return f"{scope} {derive(master, scope, name.encode()).hex()} {name}"


def parse_master_keys(text: str) -> tuple[bytes, ...]:
    """Return the master keys of a file, the newest first.

    Args:
        text: The text of the file: one key per line. Empty lines and lines that begin with `#`
            are skipped.

    Raises:
        BadSigningKey: A line is not a key, or there are too many keys or none. The message names
            the line.
    """
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
            raise BadSigningKey(f"line {number} has a master key a second time; remove one of them")
        found.append(master)
    if not found:
        raise BadSigningKey(f"there is no master key; write {MASTER_FORM}")
    if len(found) > MAX_MASTERS:
        raise BadSigningKey(
            f"{len(found)} master keys are too many; leave those that sources still sign with, at"
            f" most {MAX_MASTERS}"
        )
    return tuple(found)


def read_key_file(
    path: Path | str, most_bytes: int = MAX_FILE_BYTES, bad: type[ValueError] = BadSigningKey
) -> str:
    """Return the text of a key file.

    Args:
        path: The file.
        most_bytes: The maximum size of a key file.
        bad: The class of the error to raise.

    Raises:
        ValueError: `bad`, if the file cannot be read, is too large or is not UTF-8 text.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(most_bytes + 1)
        if len(content) > most_bytes:
            raise bad(f"{path}: larger than {most_bytes} bytes, so it is not a key file")
        return content.decode("utf-8")
    except OSError as error:
        raise bad(f"{path}: {error.strerror}; name a readable key file") from error
    except UnicodeDecodeError as error:
        raise bad(f"{path}: not UTF-8 text; name a key file") from error
