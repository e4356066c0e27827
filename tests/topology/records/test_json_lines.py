"""Output lines: an example table, compared as text so that the order of keys counts."""

from __future__ import annotations

import json

import pytest

from topology.base.event import NO_EPOCH, Event
from topology.base.outcome import Duplicate, Gap, Late, Malformed
from topology.records.json_lines import make_event_line, make_report_line

EVENT = Event("pitch", "s", 2, 7, 5, 6, offset=9, value={"x": 1}, type="A")
UNSETTLED = Event("pitch", "s", NO_EPOCH, 7, 5, 6, offset=9)

DEAD = Malformed(8, 9, "seq_missing", "write it", "pitch", "s", NO_EPOCH)
WRITTEN = [
    make_event_line(EVENT),
    make_report_line(Gap(8, "pitch", "s", 2, 3, 4, "timeout", 6, 1, None), replayed=False),
    make_report_line(Late(8, EVENT, "merge_wait", 3), replayed=True),
    make_report_line(Duplicate(8, UNSETTLED), replayed=False),
    make_report_line(Duplicate(8, EVENT, conflict=True), replayed=True),
    make_report_line(DEAD, replayed=True),
    make_report_line(DEAD, replayed=False),
]
EXPECTED = json.loads("""[
{"kind": "event", "source": "s", "seq": 7, "epoch": 2, "stream": "pitch", "ts": 5, "ref_time": 5,
 "error": 0, "type": "A", "payload": {"x": 1}, "late": false, "at": 6},
{"kind": "gap", "stream": "pitch", "source": "s", "epoch": 2, "first": 3, "last": 4,
 "reason": "timeout", "at": 8, "known_at": 6, "ts_before": 1, "ts_after": null},
{"kind": "late", "stream": "pitch", "source": "s", "epoch": 2, "seq": 7, "reason": "merge_wait",
 "line": 9, "at": 8, "by": 3},
{"kind": "duplicate", "stream": "pitch", "source": "s", "epoch": null, "seq": 7, "reason": "copy",
 "line": null, "at": 8},
{"kind": "duplicate", "stream": "pitch", "source": "s", "epoch": 2, "seq": 7, "reason": "conflict",
 "line": 9, "at": 8},
{"kind": "dead", "stream": "pitch", "source": "s", "epoch": null, "seq": null,
 "reason": "seq_missing", "line": 9, "at": 8, "detail": "write it"},
{"kind": "dead", "stream": "pitch", "source": "s", "epoch": null, "seq": null,
 "reason": "seq_missing", "line": null, "at": 8, "detail": "write it"}
]""")


@pytest.mark.parametrize(("written", "expected"), [*zip(WRITTEN, EXPECTED, strict=True)])
def test_keys_have_the_documented_order(written: object, expected: object) -> None:
    assert json.dumps(written) == json.dumps(expected)


def test_late_event_has_its_reason() -> None:
    event = Event("pitch", "s", 2, 7, 5, 6)
    assert "reason" not in make_event_line(event)
    event.late = "gap"
    assert make_event_line(event)["late"] is True
    assert make_event_line(event)["reason"] == "gap"
