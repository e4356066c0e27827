"""What a query is known by: a digest of its tree, the same in every process and version.

A tree is digested as its nodes' names with those fields that do not have their default, so a
field added later changes no fingerprint; spans and Python functions (which have a name and a
version) are left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from hashlib import blake2b
from typing import Any, Final

from topology.pattern.tree.syntax import Constant, Param, Query, Span

DIGEST_BYTES: Final = 16


def fingerprint(query: Query) -> str:
    text = json.dumps(_plain(query), ensure_ascii=True, separators=(",", ":"), default=repr)
    return blake2b(text.encode("ascii"), digest_size=DIGEST_BYTES).hexdigest()


def _plain(tree: Any) -> Any:
    if isinstance(tree, tuple):
        return [_plain(part) for part in tree]
    if not is_dataclass(tree):
        return tree
    named: dict[str, Any] = {}
    for spot in fields(tree):
        part = getattr(tree, spot.name)
        if isinstance(part, Span) or not spot.compare:
            continue
        if spot.default is MISSING or type(part) is not type(spot.default) or part != spot.default:
            named[spot.name] = _plain(part)
    return [type(tree).__name__, named]


def bound(query: Query, params: Mapping[str, Any]) -> Query:
    """The query with the values of the parameters in their places."""
    result = _bound(query, params)
    assert isinstance(result, Query)
    return result


def _bound(tree: Any, params: Mapping[str, Any]) -> Any:
    if isinstance(tree, Param):
        return Constant(params[tree.name], tree.span) if tree.name in params else tree
    if isinstance(tree, tuple):
        return tuple(_bound(part, params) for part in tree)
    if not is_dataclass(tree) or isinstance(tree, type):
        return tree
    changed: dict[str, Any] = {}
    for spot in fields(tree):
        part = getattr(tree, spot.name)
        new = _bound(part, params)
        if new is not part and new != part:
            changed[spot.name] = new
    return replace(tree, **changed) if changed else tree
