"""Oracle, end to end: an engine that waits long enough is right for each query.

Errors with a shorter wait are therefore the engine's own, not those of our entry for it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.disorder import worlds
from benchmarks.disorder.run import ENTRIES, absent, measure
from benchmarks.report import programs
from tests.services import absent as left_out

PATIENT = (
    "Bytewax, 2 s",
    "Quix, grace 2 s",
    "Kafka Streams, grace 2 s, suppress",
    "Flink, 2 s",
    "Esper, 2 s",
)


@pytest.mark.long
@pytest.mark.parametrize("query", list(worlds.QUERIES))
@pytest.mark.parametrize("name", PATIENT)
def test_patient_engine_is_right(name: str, query: str, tmp_path: Path) -> None:
    there, missing = programs()
    entry = next(entry for entry in ENTRIES if entry.name == name)
    if query not in entry.queries:
        return
    if why := absent(entry, "rough", query, there):
        left_out(f"{why}: {missing}")
    worlds.write(tmp_path, seconds=30, seed=3)
    assert measure(entry, tmp_path, "rough", query, there).score.wrong_end == 0
