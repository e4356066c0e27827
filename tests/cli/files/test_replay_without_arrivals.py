"""Examples: recordings without arrival times show nothing about clocks. One wrong timestamp in them
harms only its own source.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from inorder.contract import MAX_INT64
from inorder.engine import replay as replayed_in_code
from inorder.ordering import Ordering
from inorder.records import OrderedEvent, RawEvent, WindowRecord, record_of
from tests.cli.invoking import Answer, inorder, json_lines, replay_of, text_file

S = 1_000_000_000
START = 1_700_000_000 * S
FAST = "press-7"
AHEAD = 41 * S
PLAIN = "streams: {default: {merge: {idle_after: 2min}}}\n"


def rows(arrives: bool) -> list[dict[str, int | str]]:
    """Return a minute of events from ten sources, one a second each; one clock is 41 s fast."""
    found: list[dict[str, int | str]] = []
    for seq in range(60):
        for number in range(10):
            source = f"press-{number}"
            at_ns = START + seq * S + number * S // 10
            stamp_ns = at_ns + AHEAD * (source == FAST)
            arrival = {"arrival": at_ns + 10_000_000} if arrives else {}
            found.append({"source": source, "seq": seq, "ts": stamp_ns, **arrival})
    return found


def replayed(folder: Path, *, arrives: bool, topology: str = PLAIN) -> Answer:
    made = rows(arrives)
    text = "\n".join([",".join(made[0]), *(",".join(map(str, row.values())) for row in made)])
    (folder / "e.csv").write_text(text + "\n")
    (folder / "t.yaml").write_text(topology)
    return inorder("replay", "--topology", folder / "t.yaml", "--json", folder / "e.csv")


def test_timestamps_are_not_corrected(tmp_path: Path) -> None:
    answer = replayed(tmp_path, arrives=False)
    events = answer.of("event")
    assert len(events) == 600
    assert all(each["ref_time"] == each["ts"] and each["error"] == 0 for each in events)
    assert "moved" not in answer.summary
    assert answer.summary["arrivals"] is False
    assert "no line has an arrival time (`arrival`)" in answer.err
    assert "unsynced: trust" in answer.err


def test_many_late_events_have_a_remedy(tmp_path: Path) -> None:
    """Nine clocks are 41 s behind the fast one. Their events are late unless the file allows a
    longer wait.
    """
    default = "streams: {default: {}}\n"
    answer = replayed(tmp_path, arrives=False, topology=default)
    late = answer.summary["late"]
    assert late > 300
    assert f"{late:,} events are late" in answer.err
    assert "merge: {max_wait: " in answer.err
    patient = "streams: {default: {merge: {max_wait: 1min, idle_after: 2min}}}\n"
    answer = replayed(tmp_path, arrives=False, topology=patient)
    assert answer.summary["late"] < 10


def test_arrivals_correct_fast_clock(tmp_path: Path) -> None:
    answer = replayed(tmp_path, arrives=True)
    moved = {
        line["source"]
        for line in answer.lines
        if line["kind"] == "event" and line["ref_time"] != line["ts"]
    }
    assert moved == {FAST}
    assert "arrivals" not in answer.summary
    assert "no line has an arrival time" not in answer.err


def test_trusted_clocks_cause_no_warning(tmp_path: Path) -> None:
    trusting = "streams: {default: {clock: {unsynced: trust}}}\n"
    answer = replayed(tmp_path, arrives=False, topology=trusting)
    assert "no line has an arrival time" not in answer.err


@pytest.mark.parametrize("offset_ns", [5 * S, -5 * S])
def test_declared_offset_is_kept(offset_ns: int) -> None:
    """Without arrivals a timestamp stands in for each one, but it does not refute a declared offset
    of 5 s.
    """
    lines = [{"clock": "a", "at": 0, "offset": offset_ns, "error": 0}] + [
        {"source": "a", "seq": seq, "ts": START + seq * S} for seq in range(10)
    ]
    events = [e for e in replayed_in_code(PLAIN, lines) if isinstance(e, OrderedEvent)]
    assert [e.ref_time_ns - e.ts_ns for e in events] == [offset_ns] * 10


def test_error_is_zero_without_arrivals() -> None:
    raw = [RawEvent(source="a", seq=seq, ts_ns=START + seq * S) for seq in range(3)]
    events = [e for e in replayed_in_code(PLAIN, raw) if isinstance(e, OrderedEvent)]
    assert [e.error_ns for e in events] == [0, 0, 0]
    arriving = [{"source": "a", "seq": s, "ts": START, "arrival": START + S} for s in range(3)]
    events = [e for e in replayed_in_code(PLAIN, arriving) if isinstance(e, OrderedEvent)]
    assert all(e.error_ns > 0 for e in events)


WINDOWS = """
streams: {default: {reorder: {rule: fixed, max_wait: 500ms}, clock: {unsynced: trust}}}
queries: {w: {window: tumbling 1min, key: payload.k, aggregate: {n: count()}}}
"""
YEARS = 11 * 365 * 86_400 * S


def one_wrong(seq: int, ahead_ns: int) -> list[dict[str, Any]]:
    """Return five minutes of events from two sources, one a second each; one timestamp is wrong."""
    return [
        {
            "source": source, "seq": n, "payload": {"k": source},
            "ts": START + n * S + (ahead_ns if (source, n) == ("a", seq) else 0),
        }
        for n in range(300)
        for source in "ab"
    ]  # fmt: skip


def in_windows(records: Iterable[Any]) -> dict[int, int]:
    """Return the latest count for source b in each minute."""
    found = [each for each in records if isinstance(each, WindowRecord) and each.key == "b"]
    return {each.start_ns: each.values["n"] for each in found if each.op != "retract"}


def pushed(lines: list[dict[str, Any]], snapshot_at: int | None = None) -> list[Any]:
    ordering, found = Ordering(WINDOWS), []
    for number, each in enumerate(lines):
        if number == snapshot_at:
            state, ordering = ordering.snapshot(), Ordering(WINDOWS)
            ordering.restore(state)
        found += ordering.feed(each)
    return found + ordering.close()


@pytest.mark.parametrize("seq", [0, 100, 299])
@pytest.mark.parametrize("ahead_ns", [3_602 * S, YEARS, -YEARS])
def test_wrong_timestamp_spares_others(tmp_path: Path, seq: int, ahead_ns: int) -> None:
    right = in_windows(replayed_in_code(WINDOWS, one_wrong(seq, 0)))
    assert list(right.values()) == [40, 60, 60, 60, 60, 20]
    lines = one_wrong(seq, ahead_ns)
    in_code = list(replayed_in_code(WINDOWS, lines))
    assert in_windows(in_code) == right
    if seq:  # An event that is pushed cannot wait for the next one.
        assert pushed(lines) == in_code
        assert pushed(lines, 2 * seq + 1) == in_code
    topology = text_file(tmp_path / "t.yaml", WINDOWS)
    by_command = inorder("replay", "--topology", topology, json_lines(tmp_path / "e.jsonl", lines))
    assert [record_of(each) for each in by_command.lines] == in_code


def test_silence_causes_no_dead_letters() -> None:
    lines = [
        {"source": "a", "seq": n, "ts": START + n * S + (n // 3) * 10 * 3_600 * S}
        for n in range(10)
    ]
    found = list(replayed_in_code("streams: {default: {clock: {unsynced: trust}}}", lines))
    assert [each.seq for each in found if isinstance(each, OrderedEvent)] == list(range(10))
    assert len(found) == 10


@pytest.mark.parametrize("ts_ns", [2**62, 2**62 + 1, MAX_INT64])
def test_latest_event_leaves_at_the_end(tmp_path: Path, ts_ns: int) -> None:
    """A stamp of any year is before the end of a recording."""
    clock = {"clock": "a", "at": 0, "offset": 2**62, "error": 0}
    event = {"source": "a", "seq": 0, "ts": ts_ns - 2**62}
    trusted = "streams: {default: {clock: {unsynced: trust}}}\n"
    answer = replay_of(tmp_path, trusted, [clock, event])
    assert [each["ref_time"] for each in answer.of("event")] == [ts_ns]
    assert answer.summary["held"] == 0
