"""Computes the digest that lets a query continue from the state of another file's query."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from topology.config.chains import patterns_read
from topology.config.stages import DETECTOR
from topology.queries.join.settings import JoinQuery
from topology.queries.pattern.settings import PatternQuery
from topology.stage.build import functions_digest, meaning_of

if TYPE_CHECKING:
    from topology.config import Topology

DIGEST_BYTES: Final = 8


def query_digest(topology: Topology, name: str) -> str:
    """Return a hex digest of everything on which the state of the named query depends.

    Queries with the same digest have the same results. KeyError is raised if the topology has no
    such query.
    """
    query = topology.queries[name]
    stream = "" if isinstance(query, JoinQuery) else topology.streams_of(query)[0]
    read = patterns_read(topology, name)
    computed = meaning_of(topology, name)
    if isinstance(query, PatternQuery):
        from topology.queries.pattern.tree.fingerprint import compute_fingerprint

        patterns = (replace(query.pattern, name=name), *read)
        computed = repr([compute_fingerprint(each) for each in patterns]).encode()
    texts = functions_digest(topology, query, *read)
    is_moved = query.kind != DETECTOR and topology.is_speculative(query)
    whole = repr((query.kind, stream, computed, texts, *["accepted"] * is_moved))
    return blake2b(whole.encode(), digest_size=DIGEST_BYTES).hexdigest()
