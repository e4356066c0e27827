"""Each source in order by its numbers, over a state of keys and values.

A record that is not the next of its source is kept in the state until the numbers before it have
come, or until a record of the source arrives `PATIENCE_MS` after the first was kept, or after some
could go; then the numbers that are missing are given up. What comes below the next number is
dropped: it is a copy, or late. `kafka_streams/HoldBack.java` says the same in Java, with a timer.
"""

from __future__ import annotations

import pickle
from typing import Any, Final, Protocol

PATIENCE_MS: Final = 100

Headers = list[tuple[str, bytes]]
Held = tuple[bytes, Headers]


class State(Protocol):
    """As Quix Streams has it: values are JSON, or bytes."""

    def get(self, key: str) -> Any: ...

    def set(self, key: str, value: Any) -> None: ...

    def get_bytes(self, key: str) -> bytes | None: ...

    def set_bytes(self, key: str, value: bytes) -> None: ...

    def delete(self, key: str) -> None: ...


def hold_back(
    value: bytes, _: Any, timestamp_ms: int, headers: Headers, state: State
) -> list[Held]:
    """What may go now; a source's place is its next number, since when it waits, and for which
    numbers there is something in the state."""
    named = dict(headers)
    source, number = named["sourceId"].decode(), int(named["seqNum"])
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
        key = f"{source}/{expected}"
        free.append(pickle.loads(state.get_bytes(key) or b""))
        state.delete(key)
        waiting.remove(expected)
        expected, since_ms = expected + 1, timestamp_ms
    state.set(source, [expected, since_ms, waiting])
    return free
