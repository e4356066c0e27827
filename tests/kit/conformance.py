"""Read the conformance table (`conformance.yaml`): cases for all ways to read values."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from inorder.contract import UNIT_NS
from topology.records.mapping import Fields
from topology.records.where import parse_where

MAPPING: Final = {
    "source": "payload.device",
    "seq": "payload.n",
    "ts": "payload.time",
    "type": "payload.kind",
    "epoch": "payload.boot",
    "ts_unit": "ms",
    "ts_zone": "",
}
OTHERS: Final = frozenset({"ts_unit", "ts_zone", "ts_format", "decimal"})
"""The keys that are no paths."""
COLUMNS: Final = ("device", "n", "time", "kind", "boot")
USUAL: Final[dict[str, Any]] = {
    "source": "s1", "seq": 7, "ts_ns": 1_000_000_000, "type": "", "epoch": None,
}  # fmt: skip
CASES: Final[list[dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parent / "conformance.yaml").read_text(encoding="utf-8")
)


def cases_of(format_: str) -> list[Any]:
    """Return name, mapping, value, and expected fields or reason for each case of a format."""
    return [
        (each["case"], _mapping(each.get("fields", {})), _written(each[format_]), expected(each))
        for each in CASES
        if format_ in each
    ]


def _mapping(given: dict[str, str]) -> dict[str, str]:
    """Return a case's mapping, without the unit of numbers where times have a format."""
    usual = {name: text for name, text in MAPPING.items() if name != "ts_unit"}
    return (usual if "ts_format" in given else MAPPING) | given


def _written(value: Any) -> Any:
    """Return a text's bytes; an escape such as "\\uDCFF" becomes the single byte 0xFF."""
    return value.encode(errors="surrogateescape") if isinstance(value, str) else value


def expected(case: dict[str, Any]) -> dict[str, Any] | str:
    reason: str | None = case.get("reason")
    return USUAL | case["found"] if reason is None else reason


def fields_of(mapping: dict[str, str]) -> Fields:
    others: dict[str, Any] = {name: mapping[name] for name in mapping.keys() & OTHERS}
    places = {name: parse_where(text) for name, text in mapping.items() if name not in OTHERS}
    assert others.get("ts_unit", "ns") in UNIT_NS
    return Fields(**places, **others)  # type: ignore[arg-type]
