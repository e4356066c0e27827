"""What a query is known by: a digest of its tree, the same in every process and version.

A tree is digested as its nodes' names with those fields that do not have their default, so a
field added later changes no fingerprint; spans are left out.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, fields, is_dataclass
from hashlib import blake2b
from typing import Any, Final

from topology.pattern.tree.syntax import Query

DIGEST_BYTES: Final = 16


def fingerprint(query: Query) -> str:
    text = json.dumps(_plain(query), ensure_ascii=True, separators=(",", ":"), default=repr)
    return blake2b(text.encode("ascii"), digest_size=DIGEST_BYTES).hexdigest()


def with_functions(fingerprint: str, digest: str) -> str:
    """Return the fingerprint of a query and of its user's functions, whose texts have the digest;
    that of the query where none has a text."""
    if not digest:
        return fingerprint
    return blake2b((fingerprint + digest).encode("ascii"), digest_size=DIGEST_BYTES).hexdigest()


def _plain(tree: Any) -> Any:
    if isinstance(tree, tuple):
        return [_plain(part) for part in tree]
    if not is_dataclass(tree):
        return tree
    named: dict[str, Any] = {}
    for spot in fields(tree):
        part = getattr(tree, spot.name)
        if not spot.compare:
            continue
        if spot.default is MISSING or type(part) is not type(spot.default) or part != spot.default:
            named[spot.name] = _plain(part)
    return [type(tree).__name__, named]
