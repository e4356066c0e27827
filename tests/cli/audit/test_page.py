"""Examples: the page of an audit names the machines at fault, and shows all of its text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.workloads.machines import FAST, S, plant
from cli.audit.page import page_of
from cli.audit.pictures import lateness_picture
from recordings.audit.document import make_document
from recordings.audit.findings import Asked, Findings, audit
from recordings.audit.row import ONE_ORDER, AuditRow
from tests.agents.watch.page.browser import NARROW, WIDE, chromium, missing, show_at
from tests.services import require

ASKED = Asked(60 * S, (0, 1 * S, 5 * S, 30 * S), ONE_ORDER, arrives=True)
AHEAD_NS = 7_200 * S


def fast(seed: int = 1) -> Findings:
    """Return findings of a plant with one machine two hours fast and one other machine late."""
    rows = [
        row._replace(ts_ns=row.ts_ns + AHEAD_NS) if row.source == FAST else row
        for row in plant(seed, late=0.0)
    ]
    slow = "robot-1"
    later = [
        row._replace(arrival_ns=(row.arrival_ns or 0) + 9 * S * (row.source == slow))
        for row in rows
    ]
    later.sort(key=lambda row: row.arrival_ns or 0)
    return audit(later, ASKED)


def test_fast_clock_blames_no_other() -> None:
    findings = fast()
    assert findings.total("out_of_time") > 0.8 * findings.records
    picture = lateness_picture(findings)
    assert "p99 2 h" not in picture
    (first,) = [each for each in picture.split("<text")[1:] if "robot-1" in each]
    assert picture.index(first) < picture.index("robot-0")


OVERFLOWS = """
    const found = [];
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth > width) found.push('page');
    for (const text of document.querySelectorAll('svg text')) {
        const box = text.getBBox(), all = text.ownerSVGElement.viewBox.baseVal;
        if (box.x < 0 || box.y < 0 || box.x + box.width > all.width
            || box.y + box.height > all.height) found.push(text.textContent);
    }
    for (const part of document.querySelectorAll('table, pre, p, li, h1, .tile'))
        if (part.getBoundingClientRect().right > width || part.scrollWidth > part.clientWidth + 1)
            found.push(part.textContent.slice(0, 60));
    for (const box of document.querySelectorAll('.wide'))
        if (box.scrollWidth > box.clientWidth && getComputedStyle(box).overflowX !== 'auto')
            found.push('picture');
    return found"""


def named(rows: list[AuditRow], name: Callable[[str], str]) -> list[AuditRow]:
    return [row._replace(source=name(row.source)) for row in rows]


@pytest.mark.programs
@pytest.mark.slow
@pytest.mark.parametrize("name", [str, lambda source: "W" * 30 + source], ids=["short", "long"])
def test_chromium_cuts_no_text(tmp_path: Path, name: Callable[[str], str]) -> None:
    require(missing())
    rows = [
        row._replace(ts_ns=row.ts_ns + AHEAD_NS * int(row.source[-1]))
        for row in plant(2, machines=12, records=4_000)
        if row.source[-1].isdigit()
    ]
    findings = audit(named(rows, name), ASKED)
    page = tmp_path / "report.html"
    steps = ["inorder audit telemetry.csv --out t.yaml  # writes these settings"]
    said = ["read by source device, seq n, ts time (ms), arrival received"]
    page.write_text("\n".join(page_of(findings, make_document(findings), "audit", said, steps)))
    with chromium(tmp_path / "profile") as driver:
        driver.get(page.as_uri())
        for width in (WIDE, NARROW):
            show_at(driver, width, 900)
            assert driver.execute_script(OVERFLOWS) == []
