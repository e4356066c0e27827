"""A result of each kind, with every field that a stage can write."""

from __future__ import annotations

from typing import Any

from topology.base.result import JoinResult, MatchResult, Member, Partner, Result, WindowResult

HEAD: dict[str, Any] = {
    "at_ns": 5,
    "stream": "pitch",
    "query": "q",
    "id": "i",
    "op": "update",
    "revision": 3,
    "final": True,
    "confidence": "uncertain",
    "start_ns": 10,
    "end_ns": 20,
    "values": {"v": 1.5, "w": "x"},
}
WRITTEN: list[Result] = [
    WindowResult(**HEAD, key={"k": [1]}, low={"v": 1}, high={"v": 3}),
    MatchResult(
        **HEAD,
        members=[Member("a", "s1", 0, 1, 10), Member("b", "s2", 1, 2**62, 20)],
        key="k",
    ),
    JoinResult(
        **HEAD,
        partners=[Partner("a", "pitch", "s1", 0, 1, 10), Partner("b", "field", "s1", 0, 1, 20)],
        key=7,
        probability=0.25,
    ),
]
