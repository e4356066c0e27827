"""Lists the words of the query language: keywords, units, functions.

Keywords may be written in upper or lower case. Some keywords, like `first` and `last`, have a
meaning only in certain places, and may be names elsewhere. The same is true of units and functions.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from topology.base.paths import backquote

KEYWORDS: Final = frozenset({
    "query", "pattern", "where", "within", "seq", "and", "or", "strict", "next", "any",
    "not", "loop", "greedy", "until", "in", "between", "is", "null", "like", "using", "matches",
    "one", "maximal", "all", "limit", "skip", "none", "to", "past", "last", "first", "emit",
    "eager", "final", "slack", "ties", "by", "key", "uncertain", "ignore",
    "nominal", "possible", "return", "as", "into", "true", "false", "sets", "for", "best",
    "partition", "skip_till_next", "skip_till_any",
})  # fmt: skip
FREE: Final = frozenset({"first", "last", "sets", "best"})
"""Keywords that may also be used as names."""

RESERVED_WORDS: Final = KEYWORDS - FREE

UNITS_NS: Final[Mapping[str, int]] = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000_000_000),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60 * 1_000_000_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600 * 1_000_000_000),
    **dict.fromkeys(("d", "day", "days"), 86_400 * 1_000_000_000),
}
MAX_NS: Final = 1 << 62
"""The longest duration that a query may contain (146 years)."""

COMPARED: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MIRRORED: Final = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The operator that replaces each comparison if its operands are exchanged."""

AGGREGATES: Final = frozenset({"count", "sum", "avg", "min", "max", "stddev"})

FUNCTIONS: Final[Mapping[str, tuple[int, int]]] = {
    "abs": (1, 1),
    "sqrt": (1, 1),
    "lower": (1, 1),
    "upper": (1, 1),
    "length": (1, 1),
    "coalesce": (1, 100),
}
"""The minimum and the maximum number of arguments of each function."""

_PLAIN: Final = re.compile(r"[^\W\d]\w*")


def is_plain(name: str) -> bool:
    """Return whether the name needs no quotes after a dot."""
    return _PLAIN.fullmatch(name) is not None


def quote(name: str) -> str:
    """Return a name as a query must write it: in back-ticks unless it is plain and unreserved."""
    if is_plain(name) and name.lower() not in RESERVED_WORDS:
        return name
    return backquote(name)


def quote_path(path: Sequence[str]) -> str:
    """Return a path as a query must write it after a dot."""
    return ".".join(name if is_plain(name) else backquote(name) for name in path)
