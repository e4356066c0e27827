"""End to end: exactly once under kill -9, a zombie, and a rebalance while events flow.

This is the short form of the chaos runs (`test_chaos.py`): a script instead of random acts, and the
same oracle. Each store and each division into stages appears once.
"""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.workloads import Row, crowd
from tests.end_to_end.oracle import assert_sound
from tests.end_to_end.records import Headers, Read, Sender, contract
from tests.end_to_end.setting import FUSED, ONE_TASK, SPLIT, Settles
from tests.end_to_end.trouble import Act, Trouble, play

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

EVENTS = 7_000
RUN = 140
"""Numbers of a run; no event is so late that its source has begun the run after the next."""
SPEED = 0.125
"""Share of 10,000 events a second, which gives 5.6 s of sending."""


@pytest.mark.in_turns(2)
@pytest.mark.parametrize(
    ("shape", "script"),
    [
        (
            {"state": "rocksdb"},
            [(0.2, Trouble.kill_worker), (0.6, Trouble.pause)],
        ),
        pytest.param(
            {"stages": FUSED, "partitions": 1, "state": "redis"},
            [(0.2, Trouble.kill_stages), (0.6, Trouble.join_and_leave)],
            marks=pytest.mark.redis,
        ),
        (
            {**ONE_TASK, "state": "rocksdb"},
            [(0.2, Trouble.kill_stages), (0.4, Trouble.pause), (0.6, Trouble.join_and_leave)],
        ),
        pytest.param(
            {"state": "memory"},
            [(0.2, Trouble.kill_supervisor), (0.6, Trouble.join_and_leave)],
            marks=pytest.mark.chaos,
        ),
    ],
    ids=["split with rocksdb", "fused with redis", "one task", "split without a store"],
)
def test_each_event_is_emitted_once(
    settles: Settles,
    shape: dict[str, Any],
    script: list[tuple[float, Act]],
    request: pytest.FixtureRequest,
) -> None:
    if shape["state"] == "redis":
        shape |= {"more": f"redis: {request.getfixturevalue('redis_server').url}\n"}
    setting = settles(**shape)
    play(setting, crowd(EVENTS).rows, SPEED, script)
    assert_sound(setting)


def test_gateway_events_are_emitted_once(settles: Settles) -> None:
    """Events from five sources carry sensor times, and some are set back further than declared."""
    clock = "unsynced: trust, max_set_back: 100ms"
    setting = settles(state="rocksdb", clock=clock)
    rows = [row._replace(ts_ns=row.ts_ns - fall_ns(row)) for row in crowd(EVENTS).rows]
    play(setting, rows, SPEED, [(0.2, Trouble.kill_worker), (0.6, Trouble.kill_stages)])
    verdict = assert_sound(setting)
    assert verdict.unmarked > verdict.accepted * 0.9
    assert verdict.late["set_back"] > 0


def fall_ns(row: Row) -> int:
    """Return how far an event is set back; its duplicates are set back as far."""
    falls = (0, 0, 0, 20, 95, 400 if row.seq % 70 == 5 else 0)
    return falls[row.seq % len(falls)] * 1_000_000 if row.source < "s05" else 0


class Restarting(Sender):
    """A sender that restarts the numbers of each source after `RUN`, and writes no epochs."""

    def record_of(self, row: Row, ts_ns: int) -> tuple[bytes, Headers]:
        value, _ = super().record_of(row, ts_ns)
        return value, contract(row.source, row.seq % RUN, ts_ns)


def with_epoch(record: Read) -> Read:
    """Return the record with its epoch.

    Its value has the number that would have come without restarts.
    """
    number = int((record.value or b"").split()[1])
    return record._replace(headers=[*record.headers, ("epoch", b"%d" % (number // RUN))])


def test_each_event_once_across_restarts(settles: Settles) -> None:
    # A suspect waits at most `max_wait` for the next event, which a busy machine may send late.
    setting = settles(state="rocksdb", stream="reorder: {max_wait: 4s, start: zero}")
    rows = crowd(EVENTS).rows
    sender = Restarting(setting, rows, speed=SPEED)
    script = [(0.2, Trouble.kill_worker), (0.6, Trouble.kill_stages)]
    play(setting, rows, SPEED, script, sender=sender)
    verdict = assert_sound(setting, as_ours=with_epoch)
    assert verdict.unmarked > verdict.accepted * 0.9


def test_at_least_once_loses_nothing(settles: Settles) -> None:
    """Some events can be emitted again, but none is missing, and new ones stay in order."""
    setting = settles(stages=SPLIT, delivery="at_least_once")
    script = [(0.2, Trouble.kill_worker), (0.6, Trouble.pause)]
    play(setting, crowd(EVENTS).rows, SPEED, script)
    verdict = assert_sound(setting, repeats=True)
    print(f"{verdict.repeated} came again")
