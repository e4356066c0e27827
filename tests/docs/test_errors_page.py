"""Law: docs/reference/errors.md lists each reason of a dead letter."""

from __future__ import annotations

import re

import pytest

from codec.values import registered
from tests import ROOT
from tests.end_to_end.bad_input import CASES, CONTROL, DUPLICATE, EMITTED, LATE
from topology.records import field_reader, reasons
from topology.records.values import UNDECODABLE

PAGE = (ROOT / "docs/reference/errors.md").read_text()
NAMED = set(re.findall(r"^\| (`.*`) \|", PAGE, re.M))
WORDS = {word for cell in NAMED for word in re.findall(r"`([^`]+)`", cell)}
FAULTS = {word.removeprefix("…") for word in WORDS if word.startswith("…")}
REASONS = {
    *({case.outcome for case in CASES} - {EMITTED, LATE, DUPLICATE, CONTROL}),
    *(reasons.REASONS.keys() - {reasons.ZONELESS, reasons.YEARLESS}),
    *(registered.SCHEMA_UNKNOWN, registered.SCHEMA_REFUSED, UNDECODABLE),
    field_reader.KEY_UNDECODABLE,
    *(
        reason
        for module in (ROOT / "topology").rglob("*.py")
        for reason in re.findall(r'dead_letter\([^)]*?"(\w+)"', module.read_text(encoding="utf-8"))
    ),
}


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_each_reason_is_on_the_page(reason: str) -> None:
    assert reason in WORDS or any(f"_{reason}".endswith(fault) for fault in FAULTS)


def test_enough_reasons_are_found() -> None:
    assert len(reasons.REASONS) > 25
    assert len(REASONS) > 45
