"""Examples: `inorder replay` with plausible and absurd clock lines."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from agents.exits import Exit
from tests.cli.invoking import Answer, replay_of

MS = 1_000_000
S = 1_000 * MS
NOW = 1_700_000_000 * S
HUGE = 1 << 62
QUERIES = """
queries:
  n: {window: tumbling 1s, aggregate: {n: count()}}
  ab: {pattern: "PATTERN SEQ(A a, B b) WITHIN 1 s"}
"""


def replayed(folder: Path, clock: str, lines: list[dict[str, Any]], more: str = "") -> Answer:
    return replay_of(folder, f"streams: {{default: {{clock: {clock}}}}}\n{more}", lines)


def steady(count: int, *sources: str) -> list[dict[str, Any]]:
    """Return events from correct clocks: ten a second from each source, each arriving 5 ms after
    its timestamp.
    """
    return [
        {"source": source, "seq": seq, "ts": ts, "arrival": ts + 5 * MS, "type": "AB"[seq % 2]}
        for seq in range(count)
        for ts in [NOW + 100 * MS * seq]
        for source in sources
    ]


def balanced(answer: Answer) -> bool:
    counts = answer.summary
    parts = ("event", "late", "duplicate", "dead", "held")
    return bool(counts["in"] == sum(counts[name] for name in parts))


@pytest.mark.parametrize("unsynced", ["estimate", "trust", "reject"])
@pytest.mark.parametrize(("offset", "error"), [(HUGE, HUGE), (HUGE, 0), (-HUGE, 0)])
def test_absurd_offset_spares_others(
    tmp_path: Path, unsynced: str, offset: int, error: int
) -> None:
    word = {"clock": "bad", "at": 0, "offset": offset, "error": error}
    withdrawal = {"clock": "bad", "at": NOW + 3 * S, "offset": None}
    lines = [word, *steady(60, "bad", "good")]
    lines.insert(70, withdrawal)
    policy = f"{{unsynced: {unsynced}}}"
    answer = replayed(tmp_path, policy, lines)
    assert (
        answer.code == Exit.DONE
    )  # The exit code is the same even if the topology rejects all events.
    assert balanced(answer)
    assert answer.summary["held"] == 0
    good = [line for line in answer.lines if line.get("source") == "good"]
    alone = replayed(tmp_path, policy, steady(60, "good"))
    expected = [line for line in alone.lines if line.get("source") == "good"]
    for key in ("kind", "seq", "ref_time", "error", "late"):
        assert [line.get(key) for line in good] == [line.get(key) for line in expected]
    if error == HUGE:
        refused = [line["reason"] for line in answer.of("dead") if line["line"] == 1]
        assert refused == ["error_huge"]
    if unsynced != "reject":
        bad = [line for line in answer.of("event") if line["source"] == "bad"]
        # Most events are emitted as time passes, not only at the end.
        assert len(bad) == 60
        assert sum(line["at"] < NOW + 6 * S for line in bad) > 45


def absurd(random: Random) -> list[dict[str, Any]]:
    edges = [sign * (1 << bits) for bits in (0, 31, 53, 62) for sign in (1, -1)]
    edges += [0, NOW, -NOW, (1 << 63) - 1, -(1 << 63)]

    def number(usual: int) -> int:
        if random.random() < 0.6:
            return usual + random.randrange(-S, S)
        return max(-(1 << 63), min((1 << 63) - 1, random.choice(edges)))

    lines: list[dict[str, Any]] = []
    numbers: Counter[str] = Counter()
    for at in range(NOW, NOW + 20 * S, 100 * MS):
        source = random.choice("abc")
        kind = random.random()
        if kind < 0.1:
            error = random.choice((0, S, HUGE, 3_600 * S))
            offset = None if random.random() < 0.3 else number(0)
            lines.append({"clock": source, "at": number(at), "offset": offset, "error": error})
        elif kind < 0.25:
            rounds = {f"t{i}": number(at) for i in (1, 2, 3, 4)}
            lines.append({"clock": source, **rounds, "mono": number(0), "segment": number(0)})
        else:
            line = {"source": source, "seq": numbers[source], "ts": number(at), "type": "A"}
            # The arrival clock never goes back, so an absurd arrival counts for all later lines.
            line["arrival"] = at if random.random() < 0.99 else number(at)
            numbers[source] += 1
            lines.append(line)
    return lines


@pytest.mark.parametrize("unsynced", ["estimate", "trust", "reject"])
@pytest.mark.parametrize("seed", range(4))
def test_absurd_times_lose_no_line(tmp_path: Path, unsynced: str, seed: int) -> None:
    answer = replayed(tmp_path, f"{{unsynced: {unsynced}}}", absurd(Random(seed)), QUERIES)
    assert answer.code == 0
    assert balanced(answer)
    for line in answer.of("event"):
        assert -(1 << 63) <= line["ref_time"] < 1 << 63
        assert 0 <= line["error"] < 1 << 63


def test_corrections_are_reported(tmp_path: Path) -> None:
    right = steady(100, "a", "b")
    answer = replayed(tmp_path, "{}", right)
    assert "clock:" not in answer.err
    assert "moved" not in answer.summary
    behind = [
        {**line, "ts": line["ts"] - 7 * S} if line["source"] == "b" else line for line in right
    ]
    answer = replayed(tmp_path, "{}", behind)
    (line,) = [line for line in answer.err.splitlines() if line.startswith("clock:")]
    assert "1 of 2 sources was corrected by up to 7 s" in line
    assert "write clock: {unsynced: trust}" in line
    assert answer.summary["moved"] == {"sources": 1, "by_ms": 6985.0, "events": 0}
    trusted = replayed(tmp_path, "{unsynced: trust}", behind)
    assert "clock:" not in trusted.err


def test_fast_replay_keeps_times(tmp_path: Path) -> None:
    """A minute of last year's data arrives in 1.2 seconds. All but the stated errors match those
    under `trust`.
    """
    old = [
        {**line, "arrival": NOW + 365 * 86_400 * S + at * MS}
        for at, line in enumerate(steady(600, "a", "b"))
    ]
    estimated = replayed(tmp_path, "{}", old, QUERIES.split("  ab", maxsplit=1)[0])
    trusted = replayed(tmp_path, "{unsynced: trust}", old)
    keys = ("source", "seq", "ref_time", "late", "at")

    def events(answer: Answer) -> list[list[Any]]:
        return [[line[k] for k in keys] for line in answer.of("event")]

    assert events(estimated) == events(trusted)
    assert "clock:" not in estimated.err
