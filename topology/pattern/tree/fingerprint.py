"""Computes a digest of a query's tree, which is the same in every process and version.

It covers the names of the nodes, and the fields that differ from their defaults. So a field that is
added later changes no fingerprint. Spans are left out.
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
    """Return the fingerprint of a query together with its user's functions.

    `digest` is of the texts of these functions. If it is empty, the query's fingerprint stays.
    """
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
