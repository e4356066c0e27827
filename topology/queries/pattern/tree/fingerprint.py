"""Computes a digest of a query's tree, which is the same in every process and version.

The digest covers the class names of the nodes, and the fields that differ from their defaults. So a
field that a later version adds does not change the digests of existing queries. Places in the text
(spans) are not covered.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, fields, is_dataclass
from hashlib import blake2b
from typing import Any, Final

from topology.queries.pattern.tree.syntax import Query

DIGEST_BYTES: Final = 16


def compute_fingerprint(query: Query) -> str:
    text = json.dumps(_plain(query), ensure_ascii=True, separators=(",", ":"), default=repr)
    return blake2b(text.encode("ascii"), digest_size=DIGEST_BYTES).hexdigest()


def with_functions(fingerprint: str, digest: str) -> str:
    """Return a fingerprint of a query that also covers the user's own functions.

    `digest` is the digest of the source texts of these functions. If it is empty, the query's
    fingerprint is returned unchanged.
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
