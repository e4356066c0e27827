"""Writes states as bytes with a header that names the format: backfills, live jobs and `Ordering`.

The values are packed by `marshal`, which preserves plain values exactly, in a format that every
version of Python reads. The first line names the format of the state, the format of marshal and the
Python version. It is checked before anything else, because marshal can misread foreign bytes or
crash the process. The line ends with a digest of its own text and of the packed values, so that
damage is detected.
"""

from __future__ import annotations

import marshal
import sys
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeVar

from topology.state.saved import ShapeRefused

T = TypeVar("T")

_WRITER: Final = f" of Python {sys.version_info[0]}.{sys.version_info[1]}"
DAMAGES: Final = (
    EOFError, LookupError, TypeError, ValueError, AttributeError, AssertionError,
)  # fmt: skip
_MARSHAL: Final = 4
_DIGEST: Final = ", blake2b "
_BYTES: Final = 16

MOST_SHOWN: Final = 80
"""The maximum number of characters that a message shows of an unknown first line."""


class StateUnreadable(ValueError):
    """The error for a state that is damaged or in another format; the message has the remedy."""


class Form(NamedTuple):
    """A format of saved states.

    Attributes:
        mark: The text at the beginning of the first line.
        number: The version that is written and read.
        anew: The remedy if a state has another version.
        mended: The remedy if a state is damaged.
    """

    mark: str
    number: int
    anew: str
    mended: str

    def pack(self, values: Any) -> bytes:
        first = f"{self._first}{_WRITER}"
        rest = marshal.dumps(values, _MARSHAL)
        return f"{first}{_DIGEST}{_digest(first, rest)}\n".encode() + rest

    def read(self, content: bytes, read: Callable[[Any], T]) -> T:
        """Return `read(values)` for the values in `content`.

        StateUnreadable is raised if the first line names another format, the digest does not match,
        or `read` fails.
        """
        start, _, rest = content.partition(b"\n")
        line = start.decode(errors="replace")
        first, _, digest = line.partition(_DIGEST)
        if content.startswith(self.mark.encode()) and not first.startswith(self._first + " of "):
            raise StateUnreadable(
                f"the state is of another version: it begins with `{line[:MOST_SHOWN]}`, but this"
                f" one reads `{self._first}`; go on with the version that wrote it, or {self.anew}"
            )
        if digest != _digest(first, rest):
            raise self._make_damaged_error("its digest does not match")
        try:
            return read(marshal.loads(rest))
        except StateUnreadable:
            raise
        except ShapeRefused as refused:
            raise StateUnreadable(
                f"the state cannot be read by this version ({refused}); go on with the"
                f" version that wrote it, or {self.anew}"
            ) from None
        except DAMAGES as wrong:
            raise self._make_damaged_error(f"{type(wrong).__name__}: {wrong}") from None

    def _make_damaged_error(self, how: str) -> StateUnreadable:
        return StateUnreadable(f"the state is damaged ({how}); {self.mended}")

    @property
    def _first(self) -> str:
        return f"{self.mark} {self.number} in marshal {_MARSHAL}"


def _digest(first: str, rest: bytes) -> str:
    found = blake2b(first.encode(), digest_size=_BYTES)
    found.update(rest)
    return found.hexdigest()
