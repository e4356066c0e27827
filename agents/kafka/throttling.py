"""Notes how long the brokers throttle this process because of a quota.

A broker answers a throttled client at once, says for how long it throttles, and reads nothing from
the connection until then. So the client's next request waits, which looks like a broker that hangs.
aiokafka ignores that time. All of its clients pass their answers through one method, which
`record_throttling` replaces.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, Final

from aiokafka.client import AIOKafkaClient

SHOWN_S: Final = 10.0
"""Time after the end of a throttling for which it is still shown, because another one follows."""

REMEDY: Final = (
    "raise producer_byte_rate, consumer_byte_rate or request_percentage of its user or client id"
)
NS_PER_MS: Final = 1_000_000


class Throttling:
    """The latest throttling of the clients of this process.

    Attributes:
        until_ns: Monotonic time until which a broker reads nothing from some connection; 0 at
            first.
    """

    def __init__(self) -> None:
        self.until_ns = 0
        self._ms = 0

    def note(self, throttle_ms: int, now_ns: int) -> None:
        """Record the throttle time of an answer; 0 is none."""
        until_ns = now_ns + throttle_ms * NS_PER_MS
        if throttle_ms > 0 and until_ns >= self.until_ns:
            self.until_ns, self._ms = until_ns, throttle_ms

    def notes(self, now_ns: int) -> tuple[str, ...]:
        """Return a sentence on the throttling, if it is present or has just ended."""
        if not self._ms or now_ns > self.until_ns + SHOWN_S * 1e9:
            return ()
        return (f"throttled by a quota: {self._ms:,} ms at the last answer; {REMEDY}",)


OF_PROCESS: Final = Throttling()
"""The throttling of all clients of the process, which `record_throttling` records."""

_send = AIOKafkaClient.send


async def _send_and_note(client: AIOKafkaClient, *arguments: Any, **named: Any) -> Any:
    answer = await _send(client, *arguments, **named)
    with suppress(AttributeError):  # Answers of early versions have no throttle time.
        OF_PROCESS.note(answer.throttle_time_ms, time.monotonic_ns())
    return answer


def record_throttling() -> None:
    """Make all clients of the process record their throttling; calling it again does nothing."""
    AIOKafkaClient.send = _send_and_note
