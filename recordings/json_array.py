"""Read the elements of a JSON array one by one, as many programs export their records.

The text is cut at the commas between elements, so that memory holds one element and one line at a
time. Blank elements are skipped, as after a last comma.

Bounds: an element has at most `limit` bytes; a longer one is a fault, and reading continues.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from topology.records.reasons import WireFault, fault_of

_OUTSIDE: Final = re.compile(rb'["{}\[\],]')
_IN_TEXT: Final = re.compile(rb'["\\]')


def begins_array(line: bytes) -> bool:
    """Return whether a first line begins an array of records."""
    inside = line.lstrip()
    return inside.startswith(b"[") and inside[1:].lstrip()[:1] in (b"", b"{")


class _Brackets:
    """Finds the brackets and commas outside texts, in a text that comes in pieces."""

    def __init__(self) -> None:
        self._in_text = False
        self._escaped = 0  # A piece may end between a backslash and the character it escapes.

    def of(self, piece: bytes) -> Iterator[re.Match[bytes]]:
        at, self._escaped = self._escaped, 0
        while at < len(piece):
            mark = (_IN_TEXT if self._in_text else _OUTSIDE).search(piece, at)
            if mark is None:
                return
            at = mark.end()
            if mark[0] == b"\\":
                at += 1
            elif mark[0] == b'"':
                self._in_text = not self._in_text
            else:
                yield mark
        self._escaped = at - len(piece)


def array_elements(pieces: Iterable[bytes], limit: int) -> Iterator[tuple[int, bytes | WireFault]]:
    """Yield the elements of an array, numbered from 1.

    Args:
        pieces: The text of the array, cut anywhere. The first of its signs is the bracket.
        limit: The largest number of bytes of an element.
    """
    pieces, brackets = iter(pieces), _Brackets()
    number, depth, size = 0, -1, 0
    found: list[bytes] = []
    for piece in pieces:
        begin = 0
        for mark in brackets.of(piece):
            if mark[0] in b"[{":
                depth += 1
                begin = begin if depth else mark.end()
            elif depth or mark[0] == b"}":
                depth = depth if mark[0] == b"," else max(depth - 1, 0)
            else:
                found.append(piece[begin : mark.start()])
                size += len(found[-1])
                begin = mark.end()
                element = b"".join(found).strip()
                if element:
                    number += 1
                    yield number, element if size <= limit else _make_length_fault(limit)
                found, size = [], 0
                if mark[0] == b"]":
                    yield from _refuse_rest(piece[begin:], pieces, number)
                    return
        if depth >= 0:
            found.append(piece[begin:])
            size += len(found[-1])
        if size > limit:
            found = [b"..."]
    yield number + 1, _make_json_fault("the file ends before its array does")


def _refuse_rest(
    rest: bytes, pieces: Iterable[bytes], number: int
) -> Iterator[tuple[int, WireFault]]:
    if rest.strip() or any(piece.strip() for piece in pieces):
        yield number + 1, _make_json_fault("something follows the end of the array")


def _make_json_fault(detail: str) -> WireFault:
    return fault_of("line", "not_json", "the array", shown=detail)


def _make_length_fault(limit: int) -> WireFault:
    return fault_of("line", "huge", "the element", shown=f"more than {limit} bytes")
