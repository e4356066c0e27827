"""What Spark, Java or a driver says of an error, in one line."""

from __future__ import annotations

from typing import Final

MAX_TOLD_CHARS: Final = 500


def first_line(error: BaseException) -> str:
    """Without its stack."""
    text = str(getattr(error, "java_exception", None) or error)
    said = []
    for line in map(str.strip, text.splitlines()):
        if line.startswith(("at ", "===", "JVM stacktrace")):
            break
        said.append(line)
    return " ".join(filter(None, said))[:MAX_TOLD_CHARS]
