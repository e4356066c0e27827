"""Parses and formats the place of a field in a record, as written in files and options.

    header.NAME      a record header
    key, key.PATH    the record's key, or a field of it
    payload          the decoded value
    payload.PATH     a field of the decoded value
    timestamp        the record's own timestamp
    topic, partition the record's topic or partition
    ="text"          a constant

`topology.base.paths` reads a PATH, like payload.`a b`[0].c. For a file (`on_file`), a text that
does not begin with `payload.`, `payload[` or `=` is the name of one column, dots included.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final, Literal

from topology.base.paths import MAX_CHARACTERS, Path, format_path, parse_path

Place = Literal["header", "key", "payload", "timestamp", "topic", "partition", "text"]
_HEADER: Final = re.compile(r"[!-~]{1,256}")
SPELLINGS: Final = 'header.NAME, key, payload.PATH, timestamp, topic, partition or ="text"'


@dataclass(frozen=True, slots=True)
class Where:
    """A place in a record.

    For `key` and `payload`, `path` is the path to the field within it. For a header it is the name,
    and for a constant the text.
    """

    place: Place
    path: Path = ()

    def __str__(self) -> str:
        """Return the place in the form used in a topology file."""
        if self.place == "text":
            return f"={json.dumps(self.path[0], ensure_ascii=False)}"
        if self.place == "header":
            return f"header.{self.path[0]}"
        return format_path((self.place, *self.path))


TIMESTAMP: Final = Where("timestamp")
WHOLE_VALUE: Final = Where("payload")


def parse_where(text: str, field: str = "", *, on_file: bool = False) -> Where:
    """Parse a place; raise ValueError if the text is not a place that this field can have.

    The message of the error includes the remedy.
    """
    where = _parse(text, on_file=on_file)
    if field in {"payload", "arrival"} and where.place != "payload":
        raise ValueError(f"`{where}` is not part of the value; write payload.PATH, or leave it out")
    if field == "id" and where.place in {"topic", "partition", "text"}:
        raise ValueError(f"`{where}` is the same in many records; write payload.PATH")
    if field not in {"", "ts"} and where == TIMESTAMP:
        raise ValueError("a timestamp cannot be this field; write another place, or leave it out")
    return where


def _parse(text: str, *, on_file: bool) -> Where:
    if not text or len(text) > MAX_CHARACTERS:
        raise ValueError(f"{text[:40]!r} is not a place in a record; write {SPELLINGS}")
    if text.startswith("="):
        return Where("text", (_parse_constant(text),))
    if text.startswith(("payload.", "payload[")):
        return Where("payload", parse_path(text, len("payload")))
    if on_file:
        return Where("payload", (text,))
    if text in {"payload", "key", "timestamp", "topic", "partition"}:
        return Where(text)  # type: ignore[arg-type]
    if text.startswith(("key.", "key[")):
        return Where("key", parse_path(text, len("key")))
    if text.startswith("header."):
        name = text.removeprefix("header.")
        if not _HEADER.fullmatch(name):
            raise ValueError(f"`{text}` is not a header; write header.NAME, in printable ASCII")
        return Where("header", (name,))
    remedy = f"payload.{text} for a field of the value, or {SPELLINGS}"
    raise ValueError(f"`{text}` is not a place in a record; write {remedy}")


def _parse_constant(text: str) -> str:
    try:
        constant = json.loads(text[1:])
    except ValueError:
        constant = None
    if not isinstance(constant, str):
        raise ValueError(f'`{text}` is not a constant; write ="text", in double quotes')
    return constant
