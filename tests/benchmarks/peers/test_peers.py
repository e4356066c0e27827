"""Examples: the peers' ordering rule, and missing peers. End to end: each orders a backlog."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from benchmarks.kafka import CONTENDERS, TIMEOUT_S, prepare, run
from benchmarks.peers import bring
from benchmarks.peers.hold_back import PATIENCE_MS, Headers, hold_back
from tests.end_to_end.records import read_all
from tests.services import SharedKafka

RECORDS = 10_000


class States(dict[str, Any]):
    """A peer's state in memory."""

    get_bytes = dict.get
    set = set_bytes = dict.__setitem__
    delete = dict.__delitem__


def _numbers(
    *arrivals: tuple[int, int], source: str = "s", state: States | None = None
) -> list[int]:
    """Return the numbers that come out for arrivals of (number, ms)."""
    state = States() if state is None else state
    out = []
    for number, at_ms in arrivals:
        headers: Headers = [("sourceId", source.encode()), ("seqNum", b"%d" % number)]
        freed = hold_back(b"%d" % number, None, at_ms, headers, state)
        assert all(dict(kept)["seqNum"] == value for value, kept in freed)
        out += [int(value) for value, _ in freed]
    return out


@pytest.mark.parametrize(
    ("arrivals", "out"),
    [
        ([(0, 0), (1, 1), (2, 2)], [0, 1, 2]),
        ([(0, 0), (2, 1), (3, 2), (1, 3), (4, 4)], [0, 1, 2, 3, 4]),
        ([(0, 0), (0, 1), (2, 2), (2, 3), (1, 4), (1, 5)], [0, 1, 2]),
        ([(0, 0), (2, 1), (3, 1 + PATIENCE_MS)], [0, 2, 3]),
        ([(0, 0), (2, 1), (3, 1 + PATIENCE_MS), (1, 2 + PATIENCE_MS)], [0, 2, 3]),
        ([(0, 0), (2, 1), (3, PATIENCE_MS)], [0]),
    ],
    ids=["in order", "a hole that fills", "copies", "a loss", "a late one", "patience"],
)
def test_each_source_is_ordered(arrivals: list[tuple[int, int]], out: list[int]) -> None:
    assert _numbers(*arrivals) == out


def test_headerless_record_is_json() -> None:
    state = States()
    values = [b'{"n":%d}' % number for number in (0, 2, 1)]
    freed = [hold_back(value, b"s", 0, None, state) for value in values]
    assert [[value for value, _ in each] for each in freed] == [values[:1], [], [*values[:0:-1]]]


def test_emitted_record_leaves_no_state() -> None:
    state = States()
    _numbers((0, 0), (3, 1), (2, 2), (1, 3), state=state)
    assert set(state) == {"s"}


def test_missing_jdk_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for program in ("java", "mvn"):
        (tmp_path / program).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(bring.PeerUnavailable, match="javac not found; install a JDK"):
        bring.compile_hold_back()


def test_failed_environment_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INORDER_CACHE", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "absent"))
    with pytest.raises(bring.PeerUnavailable, match="absent"):
        bring.python()


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.parametrize("peer", ["kafka-streams", "quix"])
def test_peer_orders_a_backlog(peer: str, kafka: SharedKafka, tmp_path: Path) -> None:
    course = prepare(tmp_path, kafka.bootstrap, RECORDS)
    try:
        program = CONTENDERS[peer].program(tmp_path, kafka.bootstrap, course.raw)
    except bring.PeerUnavailable as absence:
        pytest.skip(str(absence))
    wanted = course.records // 2
    run(program, kafka.bootstrap, tmp_path, wanted, TIMEOUT_S)
    numbers: dict[str, list[int]] = defaultdict(list)
    for record in read_all(kafka.bootstrap, program.output):
        numbers[record.header("sourceId") or ""].append(record.number("seqNum"))
    assert sum(map(len, numbers.values())) >= wanted - len(numbers)
    assert len(numbers) == 20
    assert all(each == sorted(set(each)) for each in numbers.values())
