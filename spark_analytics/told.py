"""What Spark, Java or a driver says of an error, in one line.

What a Python process of an executor has raised comes as the text of its trace, amid words of
Java's. Only the end of it is a sentence, and the frames before are longer than what is told.

Proved by: tests/spark_analytics/test_told.py
"""

from __future__ import annotations

import re
from itertools import dropwhile, takewhile
from typing import Final, NamedTuple

MAX_TOLD_CHARS: Final = 500
TRACE: Final = "Traceback (most recent call last):"
OWN_ROOMS: Final = ("agents", "cli", "codec", "spark_analytics", "topology")
_RAISED: Final = re.compile(r"([A-Za-z_][\w.]*)(?:: (.*))?")


class Raised(NamedTuple):
    """An error of a Python process: its class, with the module, and its own words."""

    kind: str
    words: str


def first_line(error: BaseException) -> str:
    """Without its stack. An error of ours that a Python process has raised is told by its words
    alone, another with its class."""
    found = raised(error)
    if found is None:
        said = takewhile(_is_said, map(str.strip, _text(error).splitlines()))
        told = " ".join(filter(None, said))
    elif found.words and found.kind.partition(".")[0] in OWN_ROOMS:
        told = found.words
    else:
        told = f"{found.kind}: {found.words}".removesuffix(": ")
    return told[:MAX_TOLD_CHARS]


def raised(error: BaseException) -> Raised | None:
    """What a Python process has raised, if that is what `error` tells. The last trace counts:
    those before it are of causes."""
    lines = list(takewhile(_is_before_java, _text(error).splitlines()))
    begins = [number for number, line in enumerate(lines) if TRACE in line]
    if not begins:
        return None
    behind = dropwhile(_is_frame, lines[begins[-1] + 1 :])
    found = _RAISED.fullmatch(" ".join(filter(None, map(str.strip, behind))))
    return None if found is None else Raised(found[1], found[2] or "")


def _text(error: BaseException) -> str:
    return str(getattr(error, "java_exception", None) or error)


def _is_said(line: str) -> bool:
    return not line.startswith(("at ", "===", "JVM stacktrace"))


def _is_before_java(line: str) -> bool:
    # A line of Python's source may begin with `at `, behind blanks.
    return not line.startswith(("\tat ", "===", "JVM stacktrace"))


def _is_frame(line: str) -> bool:
    return line.startswith(" ")
