"""Examples: the remarks before the figures of an audit."""

from __future__ import annotations

from benchmarks.workloads.machines import BEGIN_NS, MS, S, plant
from cli.audit.remarks import remarks
from recordings.audit.findings import Asked, audit
from recordings.audit.row import ONE_ORDER, AuditRow, OrderRule
from topology.base.outcome import Malformed

ASKED = Asked(60 * S, (0,), ONE_ORDER, arrives=True)


def test_sound_topic_has_no_remarks() -> None:
    assert list(remarks(audit(plant(1, 900), ASKED))) == []
    assert list(remarks(audit([], ASKED))) == []


def test_spread_machines_are_named() -> None:
    rows = [row._replace(partition=row.offset % 2) for row in plant(1, 900)]
    order = OrderRule((0, 1))
    (word,) = remarks(audit(rows, Asked(60 * S, (0,), order, arrives=True)))
    assert "and 3 more: in several partitions" in word
    assert "inorder produce" in word


def test_loaded_history_is_noticed() -> None:
    rows = [row._replace(arrival_ns=BEGIN_NS + at * MS) for at, row in enumerate(plant(1, 3_000))]
    (word,) = remarks(audit(rows, ASKED))
    assert "times faster than they happened" in word


def test_unreadable_rows_are_counted() -> None:
    rows: list[AuditRow | Malformed] = [
        *plant(1, 900),
        Malformed(0, 7, "seq_missing", "no \x1b number"),
    ]
    (word,) = remarks(audit(rows, ASKED))
    assert word == "unreadable: 1 seq_missing, the first at 7: no \\x1b number"
