"""Reads and writes the query of `/event`, which names one event.

`source` and `seq` are required. `stream` and `epoch` narrow the query down if the source or the
number occurs in several streams or epochs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from topology.base.event import NO_EPOCH

LONGEST_NAME: Final = 1_000
LARGEST: Final = (1 << 63) - 1
FIELDS: Final = ("source", "seq", "stream", "epoch")


class NoQuestion(ValueError):
    """The query does not name an event; the message says what to write."""


@dataclass(frozen=True, slots=True)
class Question:
    source: str
    seq: int
    stream: str | None = None
    epoch: int = NO_EPOCH

    def query(self) -> dict[str, str]:
        """Return the query parameters with which to ask a stage."""
        asked = asdict(self).items()
        return {name: str(value) for name, value in asked if value not in {None, NO_EPOCH}}


def parse_question(query: Mapping[str, str]) -> Question:
    """Return the question that a query asks; raise NoQuestion if the query names no event."""
    unknown = sorted(query.keys() - set(FIELDS))
    if unknown:
        raise NoQuestion(f"{unknown[0]!r} is an unknown field; write {', '.join(FIELDS)}")
    source = query.get("source", "")
    if not 0 < len(source) <= LONGEST_NAME:
        raise NoQuestion("source: name the source of the event, such as source=press-7&seq=17")
    stream = query.get("stream") or None
    epoch = _parse_number(query, "epoch") if query.get("epoch") else NO_EPOCH
    return Question(source, _parse_number(query, "seq"), stream, epoch)


def _parse_number(query: Mapping[str, str], field: str) -> int:
    text = query.get(field, "").strip()
    if not (text.isascii() and text.isdigit() and len(text) < len(str(LARGEST)) + 1):
        raise NoQuestion(f"{field}: {text!r} is not a number of at most 19 digits, such as 17")
    number = int(text)
    if number > LARGEST:
        raise NoQuestion(f"{field}: {number} is above {LARGEST}, the maximum")
    return number
