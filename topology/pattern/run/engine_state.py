"""The engine's own part of the state: how far it is, and since when each query counts.

A query is known again by its fingerprint; one that the state does not know, or that has changed,
counts from now on.

Proved by: tests/topology/pattern/test_engine_laws.py, tests/topology/pattern/test_state_stays.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from topology.pattern.run.compiled import Compiled
from topology.pattern.run.wiring import Wiring


def wiring_rows(wirings: Iterable[Wiring]) -> dict[str, Any]:
    """By the names of their queries."""
    return {
        wiring.query.name: [
            wiring.query.form.fingerprint,
            wiring.since_ns,
            wiring.lateness.snapshot(),
            wiring.target_ns,
        ]
        for wiring in wirings
    }


def restore_wirings(
    wirings: Iterable[Wiring], rows: Mapping[str, Any], from_now_on: Callable[[Compiled], int]
) -> set[str]:
    """The queries that waited and wait no more: what they have not emitted they do at the next
    event. `from_now_on`: from when on a query counts that was added now."""
    released = set()
    for wiring in wirings:
        fingerprint, since_ns, lateness, target_ns = rows.get(
            wiring.query.name, ("", 0, None, None)
        )
        known = fingerprint == wiring.query.form.fingerprint
        wiring.since_ns = since_ns if known else from_now_on(wiring.query)
        if target_ns is not None and wiring.target_ns is not None:
            wiring.target_ns = target_ns
        elif target_ns is not None and known:
            released.add(wiring.query.name)
        if known:
            wiring.lateness.restore(lateness)
    return released
