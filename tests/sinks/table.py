"""A table of results as `upsert` writes it, and the recipes in docs/guides/results.md."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from inorder.contract import RETRACT, retraction_headers
from tests import ROOT
from tests.sinks.results import MemorySink, same
from tests.sinks.topic import ResultsProducer, history

PAGE = (ROOT / "docs" / "guides" / "results.md").read_text()

Rows = dict[str, Any]


def recipe(name: str, places: Mapping[str, str] | None = None) -> str:
    """Return the code of the recipe whose title begins with this name.

    `places` gives replacements for the servers in it.
    """
    found = re.search(rf"^\*\*{name}\*\*.*?^```\w+\n(.*?)^```", PAGE, re.M | re.S)
    assert found is not None
    code = found[1]
    for shown, meant in (places or {}).items():
        code = code.replace(shown, meant)
    return code


def publish(producer: ResultsProducer) -> Rows:
    """Write seeded changes of results, and return those that are current at the end."""
    oracle, records = MemorySink(), list[tuple[bytes, bytes | None, dict[str, bytes]]]()
    for each in history(seed=3, ids=60, changes=400):
        oracle.write([each])
        value: bytes | None = each.record
        headers = dict[str, bytes]()
        if each.op == RETRACT:
            line = {**json.loads(each.record), "at": 7, "stream": "s"}
            headers = {name: text or b"" for name, text in retraction_headers(line)}
            value = None
        records.append((each.id.encode(), value, headers))
    assert None in {value for _, value, _ in records}
    for begin in range(0, len(records), 100):
        producer.records(records[begin : begin + 100])
    return same(oracle.current())
