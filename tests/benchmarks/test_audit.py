"""Example: counts made separately agree with the counts in an audit."""

from __future__ import annotations

from benchmarks.audit import BOUND_NS, WINDOW_NS, count
from benchmarks.workloads.machines import MS, plant
from recordings.audit.document import make_document
from recordings.audit.findings import Asked, audit
from recordings.audit.row import ONE_ORDER


def test_counts_agree_with_the_audit() -> None:
    rows = [row._replace(ts_ns=row.ts_ns // MS * MS) for row in plant(5, 5_000, 8, copied=0.01)]
    said = make_document(audit(rows, Asked(WINDOW_NS, (BOUND_NS,), ONE_ORDER, arrives=True)))
    of_job = said["windows"]["lateness"][str(BOUND_NS // MS)]
    assert count(rows) == {name: said.get(name, of_job.get(name)) for name in count(rows)}
