"""The conformance table (`conformance.yaml`): one list of cases for every way that reads values."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from inorder.contract import UNIT_NS
from topology.wire.mapping import Fields
from topology.wire.where import parse_where

MAPPING: Final = {
    "source": "payload.device",
    "seq": "payload.n",
    "ts": "payload.time",
    "type": "payload.kind",
    "epoch": "payload.boot",
    "ts_unit": "ms",
    "ts_zone": "",
}
COLUMNS: Final = ("device", "n", "time", "kind", "boot")
USUAL: Final[dict[str, Any]] = {
    "source": "s1", "seq": 7, "ts_ns": 1_000_000_000, "type": "", "epoch": None,
}  # fmt: skip
CASES: Final[list[dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parent / "conformance.yaml").read_text(encoding="utf-8")
)


def cases_of(format_: str) -> list[Any]:
    """(its name, its mapping, its value, what is found or the reason) of each case of a format."""
    return [
        (each["case"], MAPPING | each.get("fields", {}), _written(each[format_]), expected(each))
        for each in CASES
        if format_ in each
    ]


def _written(value: Any) -> Any:
    """Return the bytes of a text, in which an escape such as "\\uDCFF" is the single byte 0xFF."""
    return value.encode(errors="surrogateescape") if isinstance(value, str) else value


def expected(case: dict[str, Any]) -> dict[str, Any] | str:
    reason: str | None = case.get("reason")
    return USUAL | case["found"] if reason is None else reason


def fields_of(mapping: dict[str, str]) -> Fields:
    places: dict[str, Any] = {
        name: parse_where(text) for name, text in mapping.items() if not name.startswith("ts_")
    }
    unit: Any = mapping.get("ts_unit", "ns")
    assert unit in UNIT_NS
    return Fields(**places, ts_unit=unit, ts_zone=mapping.get("ts_zone", ""))
