"""The three states of a worker, by what its watchdog says of it."""

from __future__ import annotations

from enum import Enum

from agents.watch.watchdog import Verdict


class State(Enum):
    """In the order of gravity."""

    READY = "ready"
    NOT_READY = "not ready"
    STOP = "stop"


def state_of(verdict: Verdict) -> State:
    if verdict.is_stuck:
        return State.STOP
    return State.NOT_READY if verdict.reasons else State.READY
