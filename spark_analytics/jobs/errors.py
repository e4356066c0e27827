"""Show errors of Spark, Java or a driver as one line.

An exception of an executor's Python process arrives as the text of its trace, within a Java
message. Only the end of the trace is the error's message; the frames before it are left out.
"""

from __future__ import annotations

import re
from itertools import dropwhile, takewhile
from typing import Final, NamedTuple

MAX_CHARS: Final = 500
TRACE: Final = "Traceback (most recent call last):"
OWN_ROOMS: Final = ("agents", "cli", "codec", "recordings", "spark_analytics", "topology")
_RAISED: Final = re.compile(r"([A-Za-z_][\w.]*)(?:: (.*))?")


class Raised(NamedTuple):
    """An error of a Python process: its class, including the module, and its message."""

    kind: str
    words: str


def first_line(error: BaseException) -> str:
    """Return the error's message as one line, without the stack trace.

    If an error of this project was raised in a Python process, its class is left out. The class of
    any other error is included.
    """
    found = find_raised(error)
    if found is None:
        said = takewhile(_is_message, map(str.strip, _text(error).splitlines()))
        text = " ".join(filter(None, said))
    elif found.words and found.kind.partition(".")[0] in OWN_ROOMS:
        text = found.words
    else:
        text = f"{found.kind}: {found.words}".removesuffix(": ")
    return text[:MAX_CHARS]


def find_raised(error: BaseException) -> Raised | None:
    """Return the exception of a Python process that `error` contains, if any.

    The last trace counts, since earlier ones belong to causes.
    """
    lines = list(takewhile(_is_before_java, _text(error).splitlines()))
    begins = [number for number, line in enumerate(lines) if TRACE in line]
    if not begins:
        return None
    behind = dropwhile(_is_frame, lines[begins[-1] + 1 :])
    found = _RAISED.fullmatch(" ".join(filter(None, map(str.strip, behind))))
    return None if found is None else Raised(found[1], found[2] or "")


def _text(error: BaseException) -> str:
    return str(getattr(error, "java_exception", None) or error)


def _is_message(line: str) -> bool:
    return not line.startswith(("at ", "===", "JVM stacktrace"))


def _is_before_java(line: str) -> bool:
    # A line of Python source may begin with blanks and `at `.
    return not line.startswith(("\tat ", "===", "JVM stacktrace"))


def _is_frame(line: str) -> bool:
    return line.startswith(" ")
