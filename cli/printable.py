r"""Escapes the non-printable characters of text from other parties before people see it.

Names of sources and streams come from everyone who may write to an input topic. A line break in a
name would begin a line that looks like the program's own. An escape code would overwrite parts of a
terminal. So commands and text logs show `\n`, `\x1b` and `\u202e` instead. JSON, and everything
written to topics, has the names unchanged.
"""

from __future__ import annotations


def escape_unprintable(text: str) -> str:
    """Return the text with line breaks and other unprintable characters escaped, in O(length).

    Letters of any script are unchanged.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
