"""States as bytes that say what wrote them: for a backfill's runs and for live jobs.

The values are packed by `marshal`, which is exact for plain ones; what it wrote is read by the
Python that did, and by each whose marshal has the same form. A first line names the format of the
state, that form and that Python. It is looked at before anything else, as marshal may read what it
should not, or end the process. The line ends with a digest of what stands before it and of what
follows, so that damage is seen and not read as other values. Earlier versions wrote a line without
a digest, or none; such a state is handed on as it is.

Proved by: tests/spark_analytics/live/test_live_state.py, tests/cli/test_from_backfill.py
"""

from __future__ import annotations

import marshal
import re
import sys
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeVar

T = TypeVar("T")

_WRITER: Final = f" of Python {sys.version_info[0]}.{sys.version_info[1]}"
DAMAGES: Final = (
    EOFError, LookupError, TypeError, ValueError, AttributeError, AssertionError,
)  # fmt: skip
_DIGEST: Final = ", blake2b "
_BYTES: Final = 16
_TAIL: Final = re.compile(r"Python \d+\.\d+(?:, blake2b [0-9a-f]{32})?")
_TUPLES: Final = (b")", b"\xa9")
"""What an unmarked state begins with: a short tuple of marshal, named for later or not."""

MOST_TOLD: Final = 80
"""Characters of a first line that is not understood."""


class StateUnreadable(ValueError):
    """It is damaged, or was written by another version; the message says what to do."""


class Form(NamedTuple):
    """`mark` begins each first line; `number` is the format that is written, `before` those that
    are read beside it; `anew`: what to do where a state is none of them, `mended`: where it is
    damaged."""

    mark: str
    number: int
    anew: str
    mended: str
    before: tuple[int, ...] = ()

    def packed(self, told: Any) -> bytes:
        first = f"{self._first(self.number)}{_WRITER}"
        rest = marshal.dumps(told)
        return f"{first}{_DIGEST}{_digest(first, rest)}\n".encode() + rest

    def read(self, content: bytes, read: Callable[[Any, int | None], T]) -> T:
        """What `read` makes of the values and the number of their format, None where no line tells
        it. StateUnreadable if that is another one, or fails, or the digest is another."""
        number = None
        if content.startswith(self.mark.encode()):
            start, _, content = content.partition(b"\n")
            line = start.decode(errors="replace")
            number = self._number_of(line)
            first, _, told = line.partition(_DIGEST)
            is_whole = not told or told == _digest(first, content)
            if not is_whole or not _TAIL.fullmatch(line.partition(" of ")[2]):
                raise self._damaged("its digest is another")
        elif content[:1] not in _TUPLES:  # before marshal makes a list as long as damage says
            raise self._damaged("it begins as none does")
        try:
            return read(marshal.loads(content), number)
        except StateUnreadable:
            raise
        except DAMAGES as wrong:
            raise self._damaged(f"{type(wrong).__name__}: {wrong}") from None

    def other(self, number: object) -> StateUnreadable:
        """For a format that values tell themselves."""
        return StateUnreadable(
            f"the state is of format {number}, this version writes {self.number}; {self.anew}"
        )

    def _damaged(self, how: str) -> StateUnreadable:
        return StateUnreadable(f"the state is damaged ({how}); {self.mended}")

    def _number_of(self, line: str) -> int:
        told = line.partition(" of ")[0]
        for number in (self.number, *self.before):
            if told == self._first(number):
                return number
        raise StateUnreadable(
            f"the state is of another version: it begins with `{line[:MOST_TOLD]}`, and read here"
            f" is `{self._first(self.number)}`; go on with what wrote it, or {self.anew}"
        )

    def _first(self, number: int) -> str:
        return f"{self.mark} {number} in marshal {marshal.version}"


def _digest(first: str, rest: bytes) -> str:
    found = blake2b(first.encode(), digest_size=_BYTES)
    found.update(rest)
    return found.hexdigest()
