"""Example: a state that an earlier version wrote is read, and its owner goes on as that one did.

The files are what that version wrote (`written_states`); none is made here. What is said of the
other half changed once on purpose (decision 44): then the digests were made anew, with each state
going on as one of the version at hand does."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from agents.stage.rebuilding import Parts
from agents.state.changelog import READABLE_FORMATS, STATE_FORMAT
from agents.state.held import apply_note
from tests.agents.state.written_states import CASES, FOLDER, goes_on, halves, stage_of

FILES = sorted(FOLDER.glob("format_*.msgpack"))


def test_each_older_format_that_is_read_has_its_file() -> None:
    assert {int(file.stem.partition("_")[2]) for file in FILES} == READABLE_FORMATS - {STATE_FORMAT}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
@pytest.mark.parametrize("case", CASES)
def test_it_goes_on(case: str, file: Path) -> None:
    state, digest = msgspec.msgpack.decode(file.read_bytes())[case]
    parts = Parts()
    for key, value in state.items():
        parts.add(key.decode(), value)
    first, second = halves()
    held = [event for event in first if event.offset in parts.notes]
    for event in held:
        apply_note(event, parts.notes[event.offset], says_late=False)
    stage = stage_of(case)
    stage.restore(parts.operators, held)
    assert goes_on(stage, second) == digest
