"""Examples: an application that was cut otherwise before is not begun anew."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import pytest

from agents.kafka.brokers import Brokers
from agents.stage.arrangement import (
    Arrangement,
    ArrangementError,
    arrange,
    others_of,
    refuse_another_cut,
    topics_of,
)
from agents.state.changelog import StateRefused
from topology.config import parse

ONE = "streams: {default: {}}\ntopics: {partitions: 1}\n"
SPLIT = f"{ONE}stages: [reorder, merge, window]\n"


class Written:
    """Brokers on which these topics hold something."""

    is_embedded = False

    def __init__(self, *topics: str) -> None:
        self.topics = topics

    def written(self, topics: Iterable[str]) -> list[str]:
        return [topic for topic in topics if topic in self.topics]


def arranged(text: str, stage: int = 0) -> Arrangement:
    topology = parse(text)
    described = topology.stages[stage]
    return arrange(topology, described, dict.fromkeys(topics_of(topology, described), 1))


def look(arrangement: Arrangement, *written: str) -> None:
    refuse_another_cut(cast(Brokers, Written(*written)), arrangement)


def test_two_stages_that_became_one_are_refused_with_what_to_write() -> None:
    remedy = r"`stages: \[reorder, merge, window, pattern, join\]`, to go on, or set another"
    with pytest.raises(StateRefused, match=rf"(?s)worked with a stage `reorder`.*{remedy}"):
        look(arranged(ONE), "inorder.reorder.events.raw.changelog")
    with pytest.raises(StateRefused, match="worked with a stage `merge`"):
        look(arranged(ONE), "inorder.merge.events.sequenced.changelog")


def test_one_stage_that_became_two_is_refused_in_both() -> None:
    for stage in (0, 1):
        with pytest.raises(StateRefused, match=r"`stages: \[reorder\+merge, window, pattern"):
            look(arranged(SPLIT, stage), "inorder.reorder-merge.events.raw.changelog")


def test_a_first_start_and_one_with_a_state_of_its_own_go_on() -> None:
    look(arranged(ONE))
    both = ("inorder.reorder.events.raw.changelog", "inorder.reorder-merge.events.raw.changelog")
    look(arranged(ONE), *both)
    look(arranged(SPLIT, 1), "inorder.reorder.events.raw.changelog")


def test_stages_that_only_look_begin_anew() -> None:
    query = "queries: {n: {window: tumbling 1s, aggregate: {n: count()}}}\n"
    look(arranged(SPLIT + query, 2), "inorder.window-pattern.events.ordered.changelog")


def test_no_stage_of_the_topology_itself_counts_as_another() -> None:
    topology = parse(SPLIT)
    names = {name for _, name in others_of(topology, topology.stages[0])}
    assert not names & {"reorder", "merge", "window"}
    assert {"reorder+merge", "reorder+merge+window", "reorder+window"} <= names


def test_a_cut_that_rests_on_one_partition_is_refused_where_there_are_more() -> None:
    topology = parse(ONE)
    stage = topology.stages[0]
    partitions = dict.fromkeys(topics_of(topology, stage), 1)
    partitions |= {"events.raw": 3, "inorder.reorder-merge.events.raw.changelog": 3}
    with pytest.raises(ArrangementError, match=r"events.raw has 3 partitions .*`partitions: 3`"):
        arrange(topology, stage, partitions)
