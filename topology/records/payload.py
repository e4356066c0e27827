"""Converts decoded values that are not plain JSON to JSON, for lines, results and tables.

A decimal becomes text. A time becomes RFC 3339 text, without a zone if its zone is unknown. A time
outside the int64 range becomes its nanoseconds as text. Bytes become `{"base64": …}`.
"""

from __future__ import annotations

import base64
from decimal import Decimal

from inorder import rfc3339
from inorder.contract import MAX_INT64, MIN_INT64
from topology.records.values import Timestamp


def as_json(value: object) -> object:
    """Return the value as plain JSON: dicts, lists, text, numbers, booleans and null."""
    if isinstance(value, Timestamp):
        if not MIN_INT64 <= value.ns <= MAX_INT64:
            return str(value.ns)
        text = rfc3339.format_ns(value.ns)
        return text.removesuffix("Z") if value.is_local else text
    if isinstance(value, dict):
        return {name: as_json(each) for name, each in value.items()}
    if isinstance(value, list):
        return [as_json(each) for each in value]
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return value
