"""Examples: what is said before the numbers of an audit."""

from __future__ import annotations

from benchmarks.workloads.machines import BEGIN_NS, MS, S, plant
from cli.audit.remarks import remarks
from recordings.audit.findings import Asked, audit
from recordings.audit.row import ONE_ORDER, AuditRow, OrderRule
from topology.model.outcome import Malformed

ASKED = Asked(60 * S, (0,), ONE_ORDER, arrives=True)


def test_a_sound_topic_needs_no_word() -> None:
    assert list(remarks(audit(plant(1, 900), ASKED))) == []
    assert list(remarks(audit([], ASKED))) == []


def test_machines_in_several_partitions_are_named_first() -> None:
    rows = [row._replace(partition=row.offset % 2) for row in plant(1, 900)]
    order = OrderRule((0, 1))
    (word,) = remarks(audit(rows, Asked(60 * S, (0,), order, arrives=True)))
    assert "and 3 more: in several partitions" in word
    assert "inorder produce" in word


def test_a_history_that_was_loaded_is_recognised() -> None:
    rows = [row._replace(arrival_ns=BEGIN_NS + at * MS) for at, row in enumerate(plant(1, 3_000))]
    (word,) = remarks(audit(rows, ASKED))
    assert "times faster than they happened" in word


def test_what_cannot_be_read_is_counted_by_its_reason() -> None:
    rows: list[AuditRow | Malformed] = [
        *plant(1, 900),
        Malformed(0, 7, "seq_missing", "no \x1b number"),
    ]
    (word,) = remarks(audit(rows, ASKED))
    assert word == "unreadable: 1 seq_missing, the first at 7: no \\x1b number"
