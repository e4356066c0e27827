"""Examples: a detector that never returns ends its process, and the log names the line."""

from __future__ import annotations

import faulthandler

import pytest

from agents.task.hang import HangGuard
from tests.kit.programs import python

SCRIPT = """
from agents.task.hang import HangGuard
from inorder.engine import Detector, parse
from topology.stage.stage import Stage
from topology.base.event import Event

def never(state, event):
    while event.seq == 3:
        pass
    return state, {"seq": event.seq}

own = {"never": Detector(never)}
text = "streams: {default: {clock: {unsynced: trust}}}\\nqueries: {q: {detector: never}}"
stage = Stage(parse(text, detectors=own), ["detector"])
guard = HangGuard(500_000_000, is_armed=True)
for seq in range(5):
    event = Event("default", "s", 0, seq, 1_000 + seq, 1_000 + seq)
    with guard:
        stage.on_batch([event], event.at_ns + 1)
    print("read", seq, flush=True)
"""


def test_hang_ends_the_process() -> None:
    ended = python("-c", SCRIPT)
    assert ended.returncode == 1
    assert "Timeout (0:00:00.5" in ended.stderr
    assert "in never" in ended.stderr
    assert ended.stdout.splitlines()[-1:] == ["read 3"], "an instant is read when it is over"


@pytest.mark.parametrize("is_armed", [True, False])
def test_returning_code_is_left_alone(monkeypatch: pytest.MonkeyPatch, is_armed: bool) -> None:
    calls: list[str] = []
    for name in ("dump_traceback_later", "cancel_dump_traceback_later"):
        monkeypatch.setattr(faulthandler, name, lambda *_, name=name, **__: calls.append(name))
    guard = HangGuard(50_000_000, is_armed=is_armed)
    with guard:
        pass
    with pytest.raises(ZeroDivisionError), guard:
        _ = 1 // 0
    assert calls == ["dump_traceback_later", "cancel_dump_traceback_later"] * 2 * is_armed
