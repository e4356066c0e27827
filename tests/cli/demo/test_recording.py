"""Examples and laws: the demo's recording, and the account of the faults added to it."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from cli.demo.recording import Recorded, record, retime
from cli.demo.trouble import Injected, Posting, Trouble, add_trouble

MS = 1_000_000
S = 1_000_000_000


def test_recording_is_complete() -> None:
    events = record()
    counts = {"broker0": 8_379, "broker1": 2_412, "broker2": 2_049}
    assert Counter(event.source for event in events) == counts
    for source in counts:
        own = sorted(event.seq for event in events if event.source == source)
        assert own == list(range(len(own)))


def test_playing_shortens_silences() -> None:
    events = retime(record(), 1_000 * S)
    assert events[0].ts_ns == 1_000 * S
    assert 46 * S < events[-1].ts_ns - 1_000 * S < 47 * S
    stamps = sorted({event.ts_ns for event in events})
    assert max(after - before for before, after in pairwise(stamps)) <= 2_500 * MS
    for source in ("broker0", "broker1", "broker2"):
        own = [(event.ts_ns, event.seq) for event in events if event.source == source]
        assert own == sorted(own, key=lambda item: item[1])


@pytest.mark.parametrize("seed", range(5))
def test_law_account_is_exact(seed: int) -> None:
    events = retime(record(), 0)[:4_000]
    postings, injected = add_trouble(events, seed, Trouble(lost=0.02, doubled=0.02))
    assert all(before.send_ns <= after.send_ns for before, after in pairwise(postings))
    assert injected.postings == len(postings)
    assert injected.sent == len(events)
    arrived = {(posting.event.source, posting.event.seq) for posting in postings}
    missing = {(event.source, event.seq) for event in events} - arrived
    assert 40 < injected.lost == len(missing)
    assert 40 < injected.copies == len(postings) - len(arrived)
    assert injected.overtaken == _overtaken(postings) > 300


def _overtaken(postings: list[Posting]) -> int:
    count = 0
    seen: dict[str, list[int]] = {}
    for _, event in postings:
        numbers = seen.setdefault(event.source, [])
        count += event.seq not in numbers and any(seq > event.seq for seq in numbers)
        numbers.append(event.seq)
    return count


def test_no_trouble_changes_nothing() -> None:
    events = [Recorded("a", seq, seq * MS, "t", {}) for seq in range(100)]
    none = Trouble(delayed=0.0, lost=0.0, doubled=0.0, base_ns=5)
    postings, injected = add_trouble(events, 1, none)
    assert [posting.event for posting in postings] == events
    assert [posting.send_ns for posting in postings] == [event.ts_ns + 5 for event in events]
    assert injected == Injected(sent=100)


def test_seed_determines_the_trouble() -> None:
    events = retime(record(), 0)[:1_000]
    assert add_trouble(events, 1) == add_trouble(events, 1)
    assert add_trouble(events, 1) != add_trouble(events, 2)
