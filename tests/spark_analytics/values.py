"""Values of topics that stages write, as JSON."""

from __future__ import annotations

import json


def result(name: str, revision: int, op: str, *, at: int) -> tuple[bytes, bytes]:
    """Key and value of a window's record."""
    record = {
        "id": name,
        "query": "counted",
        "op": op,
        "revision": revision,
        "final": False,
        "confidence": "confirmed",
        "key": "7",
        "start": 0,
        "end": 10_000_000_000,
        "at": at,
        "values": {"n": revision},
    }
    return name.encode(), json.dumps(record).encode()
