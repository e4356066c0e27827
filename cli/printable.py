r"""Text of others, as it is shown to people: what is not printable is escaped.

Names of sources and streams come from whoever may write an input topic. A line break in one would
begin a line that looks like the program's own, and an escape code would paint over a terminal. So
commands and logs in text show `\n`, `\x1b`, `\u202e` in place of these. JSON, and what is written
to topics, has them as they are.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """O(length). Letters of any script stay as they are; every line break is escaped, too."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
