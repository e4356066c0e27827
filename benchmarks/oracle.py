"""Compute the waits of the Oracle of ProbSlack, which knows all arrivals (slack.md 5.8).

A window is closed when its last event has arrived. A share delta of the windows, those with the
largest waits, is given up. In the paper such a window closes at once, when the one before it ends
(wait = -f). With `early=False` no window closes before its end, and a window given up closes at its
end (*Oracle0*). A window without events needs no wait.

The paper has one line on this, which mentions the event-driven wait. Only the arrival of the last
event *of* the window gives the paper's figures.
"""

from __future__ import annotations

from collections.abc import Iterable


def last_arrivals(arrivals: Iterable[tuple[int, int]], every_ns: int) -> dict[int, int]:
    """Return the arrival of the last event of each window.

    `arrivals` are pairs (time, arrival). The windows are tumbling and include their end, not their
    start.
    """
    last: dict[int, int] = {}
    for ts_ns, arrival_ns in arrivals:
        window = -(-ts_ns // every_ns)
        last[window] = max(arrival_ns, last.get(window, arrival_ns))
    return last


def find_oracle_waits(
    arrivals: Iterable[tuple[int, int]],
    every_ns: int,
    delta: float,
    windows: range,
    *,
    early: bool = True,
) -> list[int]:
    """Return the waits of all `windows`, ascending, after a share delta of them was given up."""
    least_ns = -every_ns if early else 0
    last = last_arrivals(arrivals, every_ns)
    waits = sorted(
        max(least_ns, last[window] - window * every_ns) if window in last else least_ns
        for window in windows
    )
    given_up = int(delta * len(waits))
    return sorted(waits[: len(waits) - given_up] + [least_ns] * given_up)
