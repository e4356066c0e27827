"""Laws: no log line contains the content of a payload or a header.

Log lines contain names of sources, numbers, times and coordinates; no call in the code passes more.
A running worker logs no content either (tests/end_to_end/test_signed.py).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests import ROOT

ROOMS = ("agents", "codec", "inorder", "producers", "recordings", "sinks", "topology")
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
LOGS = {"log", "logger", "logging"}
HOLD_CONTENT = {"value", "payload", "headers", "record", "records", "event", "events", "message"}
"""Names in the code for the content of a record; no logging call may use them."""


def log_calls(text: str) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in LEVELS
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id in LOGS
        ):
            yield node


def content_in(call: ast.Call) -> set[str]:
    """Return the names for content that the call logs, except in a part that is a coordinate."""
    told = [*call.args, *(keyword.value for keyword in call.keywords)]
    found = set()
    for argument in told:
        if isinstance(argument, ast.Name) and argument.id in HOLD_CONTENT:
            found.add(argument.id)
        for node in ast.walk(argument):
            if isinstance(node, ast.Attribute) and node.attr in HOLD_CONTENT:
                found.add(node.attr)
            if isinstance(node, ast.FormattedValue | ast.Starred) and isinstance(
                node.value, ast.Name
            ):
                found |= {node.value.id} & HOLD_CONTENT
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_law_no_log_line_has_content(room: str) -> None:
    telling = [
        f"{path.relative_to(ROOT)}:{call.lineno}: {', '.join(sorted(words))}"
        for path in sorted((ROOT / room).rglob("*.py"))
        for call in log_calls(path.read_text(encoding="utf-8"))
        if (words := content_in(call))
    ]
    assert telling == []


def test_law_detects_content() -> None:
    bad = "log.info('%s', record.value)\nlog.info(f'{payload}')\nlog.error('x %s', event)\n"
    assert [content_in(call) for call in log_calls(bad)] == [{"value"}, {"payload"}, {"event"}]
    good = "log.info('%s at %s', event.source, record.offset)\n"
    assert [content_in(call) for call in log_calls(good)] == [set()]
