"""Put each source in order by its numbers, with a key-value state.

A record that is not the next of its source is kept in the state until the numbers before it have
arrived. The missing numbers are given up when a record of the source arrives `PATIENCE_MS` after
the wait began or last advanced. A record below the next number is dropped as a duplicate or as
late. `kafka_streams/HoldBack.java` does the same in Java, with a timer.
"""

from __future__ import annotations

import pickle
from typing import Any, Final, Protocol

import orjson

PATIENCE_MS: Final = 100

Headers = list[tuple[str, bytes]]
Held = tuple[bytes, Headers]


class State(Protocol):
    """The state interface of Quix Streams: values are JSON, or bytes."""

    def get(self, key: str) -> Any: ...

    def set(self, key: str, value: Any) -> None: ...

    def get_bytes(self, key: str) -> bytes | None: ...

    def set_bytes(self, key: str, value: bytes) -> None: ...

    def delete(self, key: str) -> None: ...


def hold_back(
    value: bytes, key: Any, timestamp_ms: int, headers: Headers | None, state: State
) -> list[Held]:
    """Return the records that may be emitted after this record.

    The state of a source is its next number, the time since when it waits, and the numbers with a
    record in the state. A record without headers has the source as its key, and the number `n` in
    its JSON value.
    """
    headers = headers or []
    named = dict(headers)
    if named:
        source, number = named["sourceId"].decode(), int(named["seqNum"])
    else:
        source, number = key.decode(), orjson.loads(value)["n"]
    expected, since_ms, waiting = state.get(source) or [0, 0, []]
    if number < expected:
        return []
    free: list[Held] = []
    if number == expected:
        free.append((value, headers))
        expected += 1
    elif number not in waiting:
        state.set_bytes(f"{source}/{number}", pickle.dumps((value, headers)))
        since_ms = since_ms if waiting else timestamp_ms
        waiting.append(number)
    if waiting and timestamp_ms - since_ms >= PATIENCE_MS:
        expected = min(waiting)
    while expected in waiting:
        held_at = f"{source}/{expected}"
        free.append(pickle.loads(state.get_bytes(held_at) or b""))
        state.delete(held_at)
        waiting.remove(expected)
        expected, since_ms = expected + 1, timestamp_ms
    state.set(source, [expected, since_ms, waiting])
    return free
