"""Examples: a stage that cannot put a stream in order, by the partitions that are really there."""

from __future__ import annotations

import pytest

from agents.stage.arrangement import Arrangement, ArrangementError, arrange, topics_of
from topology.config import parse

BY_DEFAULT = "streams: {default: {}}\ntopics: {partitions: 1}\n"
WRITTEN = "streams: {default: {}}\nstages: [reorder+merge, window]\n"


def arranged(text: str, partitions: int) -> Arrangement:
    topology = parse(text)
    stage = topology.stages[0]
    return arrange(topology, stage, dict.fromkeys(topics_of(topology, stage), partitions))


@pytest.mark.parametrize("text", [BY_DEFAULT, WRITTEN])
def test_sources_in_several_partitions_of_one_stage_are_refused(text: str) -> None:
    arranged(text, 1)
    with pytest.raises(ArrangementError, match=r"3 partitions of events\.raw") as refused:
        arranged(text, 3)
    said = str(refused.value)
    assert "either write `keyed_by: stream`" in said
    assert "drain it, then begin a new application with a new input topic" in said
    assert "`partitions: 3`" not in said, "the stages would be two then, which is refused, too"
    arranged(text.replace("{default: {}}", "{default: {keyed_by: stream}}"), 3)
