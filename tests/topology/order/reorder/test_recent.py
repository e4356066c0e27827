"""Examples: the memory of the last numbers, its bound and its pages."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.events import event
from topology.base.event import NO_EPOCH, Event, copy_event
from topology.base.outcome import Duplicate
from topology.config import ReorderConfig
from topology.order.reorder import operator as reorder_operator
from topology.order.reorder.operator import Reorder
from topology.order.reorder.recent import (
    BYTES,
    FIRST_PAGE,
    MAX_BYTES,
    MOST,
    PAGE,
    PAGES,
    RECENT,
    SIZE,
    Recent,
    digest_of,
)
from topology.state.saved import ShapeRefused

MS = 1_000_000


def reorder(**settings: Any) -> Reorder:
    return Reorder("default", ReorderConfig(max_wait_ns=50 * MS, start="zero", **settings))


def record(at: int, seq: int, source: str = "s", value: Any = b"v", ts: int | None = None) -> Event:
    stamp = at if ts is None else ts
    return Event("default", source, NO_EPOCH, seq, stamp * MS, at * MS, at, value=value)


def pages(state: dict[str, Any]) -> list[str]:
    return sorted(key for key in state if key.startswith(RECENT))


def test_equal_payloads_have_equal_digests() -> None:
    assert digest_of(record(0, 0, value=b"v")) == digest_of(record(5, 9, value=b"v"))
    assert digest_of(record(0, 0, value=b"v")) != digest_of(record(0, 0, value=b"w"))
    assert digest_of(record(0, 0, value={"a": 1})) == digest_of(record(1, 1, value={"a": 1}))
    typed = record(0, 0)
    typed.type = "open"
    assert digest_of(typed) != digest_of(record(0, 0))
    assert {digest_of(record(0, 0, value=empty)) for empty in (None, b"")} == {0}


def test_lone_surrogate_in_type_has_digest() -> None:
    """Python's JSON can produce such a type, although no record on the wire can have it."""
    event = Event("default", "s", 0, 1, 5, 5, value=b"v", type="\ud800")
    assert digest_of(event) != digest_of(Event("default", "s", 0, 1, 5, 5, value=b"v"))


def test_digest_of_the_codec_is_used() -> None:
    in_order, unread, held = record(0, 0), record(1, 1), record(3, 3)
    in_order.digest, held.digest = 7, 8
    assert (digest_of(in_order), copy_event(in_order).digest) == (7, 7)
    one = reorder()
    one.on_batch([in_order, unread, held], 3 * MS)
    digests = one.changes()[f"{RECENT}{FIRST_PAGE}/s"][PAGE:]
    assert digests[:4] == [7, digest_of(unread), 0, 8]


def test_only_changed_pages_are_written() -> None:
    one = reorder()
    one.changes()
    one.on_batch([record(n, n) for n in range(PAGE + 1)], PAGE * MS)
    assert pages(one.changes()) == [f"{RECENT}{page}/s" for page in (1, FIRST_PAGE)]
    one.on_batch([record(PAGE + 1, PAGE + 1)], (PAGE + 1) * MS)
    assert pages(one.changes()) == [f"{RECENT}1/s"]
    one.on_batch([record(n, n) for n in range(PAGE + 2, 5_000)], 5_000 * MS)
    assert len(pages(one.changes())) == PAGES
    assert len(pages(one.snapshot())) == PAGES + 1


def test_filled_gap_changes_its_page() -> None:
    one = reorder()
    one.changes()
    one.on_batch([record(0, 0), record(1, 40), record(2, 41)], 2 * MS)
    one.changes()
    one.on_batch([record(3, 20)], 3 * MS)
    assert pages(one.changes()) == [f"{RECENT}1/s", f"{RECENT}2/s"]


def test_new_epoch_removes_old_pages() -> None:
    one = reorder()
    one.on_batch([record(n, n) for n in range(100)], 99 * MS)
    one.changes()
    one.on_batch([record(100, 0, value=b"w"), record(101, 1, value=b"w")], 101 * MS)
    changes = one.changes()
    left = [f"{RECENT}{FIRST_PAGE}/s"]
    assert pages({key: value for key, value in changes.items() if value is not None}) == left
    assert pages(one.snapshot()) == left


def test_only_inferred_epochs_need_memory() -> None:
    one = reorder()
    one.on_batch([event(0, 0, epoch=1), event(1, 1, epoch=1)], MS)
    assert not pages(one.snapshot())
    other = reorder(infer_restart=False)
    other.on_batch([record(0, 0), record(1, 1)], MS)
    assert not pages(other.snapshot())


def test_full_memory_drops_longest_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert MOST * BYTES <= MAX_BYTES
    recent = Recent(0)
    recent.remember_last(record(0, SIZE))
    assert memoryview(recent.stamps).nbytes + memoryview(recent.digests).nbytes == BYTES
    monkeypatch.setattr(reorder_operator, "MOST", 4)
    one = reorder()
    one.on_batch([record(at, 0, f"s{n}") for at, n in enumerate((3, 1, 2, 0))], 3 * MS)
    one.on_batch([record(4, 1, "s3")], 4 * MS)
    one.changes()
    one.on_batch([record(5, 0, "s4")], 5 * MS)
    sources = {key.rsplit("/", 1)[1] for key in pages(one.snapshot())}
    assert sources == {"s0", "s3", "s4"}
    assert one.changes()[f"{RECENT}{FIRST_PAGE}/s1"] is None
    # A dropped source is remembered again, and only its timestamp shows what was forgotten.
    one.on_batch([record(6, 1, "s1")], 6 * MS)
    step = one.on_batch([record(7, 0, "s1", b"other", ts=3)], 7 * MS)
    assert [type(report) for report in step.reports] == [Duplicate]
    again = reorder()
    again.restore(one.snapshot(), ())
    assert again.snapshot() == one.snapshot()


def test_stray_or_short_pages_are_refused() -> None:
    one = reorder()
    one.on_batch([record(0, 0)], 0)
    state = dict(one.snapshot())
    row = state.pop(f"{RECENT}{FIRST_PAGE}/s")
    for key, value in ((f"{RECENT}0/t", row), (f"{RECENT}0/s", [1]), (f"{RECENT}17/s", row)):
        with pytest.raises(ShapeRefused):
            reorder().restore({**state, key: value}, ())
    with pytest.raises(ShapeRefused):
        reorder().restore({**state, f"{RECENT}0/s": [1 << 63] * (2 * PAGE)}, ())


def test_old_number_replaces_no_newer_one() -> None:
    """Both numbers have the same place; the lower one fills a gap."""
    one = reorder()
    one.on_batch([record(0, 0), record(1, 300), record(2, 300 - SIZE)], 2 * MS)
    copies = [record(3, 300, ts=1), record(4, 301), record(5, 302)]
    (found,) = one.on_batch(copies, 5 * MS).reports
    assert isinstance(found, Duplicate)
    assert one.figures()["epochs_inferred"] == 0


def test_jumped_number_replaces_none() -> None:
    one = Reorder("default", ReorderConfig(max_wait_ns=50 * MS, max_jump=100))
    one.on_batch([record(n, 100 + n) for n in range(10)], 9 * MS)
    one.on_batch([record(10, 105 + SIZE)], 10 * MS)
    one.on_time(60 * MS)
    (found,) = one.on_batch([record(61, 105, ts=5)], 61 * MS).reports
    assert isinstance(found, Duplicate)
    assert one.figures()["epochs_inferred"] == 0
