"""A chain that was cut otherwise before: its state is in other changelogs, and not begun anew.

Groups and changelogs bear the name of their stage. Where `stages:` has changed, or what the default
cut follows from (topology.config.cut), the stage that writes events finds no state, and would
put out everything again from the first record. So before a stage that writes events begins for the
first time, one look at the topics says whether another cut of this application has written events
already; if so it is refused, with what to write to go on as before. One that has a state of its
own has passed this look.

Stages that only look begin anew: their results bear the same ids. The embedded broker keeps nothing
that could be found.

Proved by: tests/agents/stage/test_cut_change.py
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Final

from agents.kafka.brokers import Brokers
from agents.kafka.stage_topics import changelog_topic, inputs_of
from agents.stage.arrangement import Arrangement
from agents.state.changelog import StateRefused
from topology.config import StageConfig, Topology
from topology.config.stages import MERGE, REORDER, link_of, operators

WRITE: Final = frozenset({REORDER, MERGE})


def refuse_another_cut(brokers: Brokers, arrangement: Arrangement) -> None:
    """StateRefused where another cut has written what this stage would write. Blocks."""
    if brokers.is_embedded or arrangement.only_looks or brokers.written(arrangement.changelogs):
        return
    topology = arrangement.topology
    others = dict(others_of(topology, arrangement.stage))
    for changelog in brokers.written(others):
        raise StateRefused(
            f"the application {topology.application} has worked with a stage"
            f" `{others[changelog]}` ({changelog} has its state), and now this one is"
            f" `{arrangement.stage.name}`: {topology.cut.why}. It would begin anew with the first"
            " record of the input and put everything out again. Write the stages as they were, like"
            f" `stages: [{', '.join(_before(others[changelog]))}]`, to go on, or set another"
            " `application:` to begin anew"
        )


def others_of(topology: Topology, stage: StageConfig) -> Iterator[tuple[str, str]]:
    """(changelog, name) of each stage that would write events of this one's in another cut."""
    mine = {each.name for each in topology.stages}
    writing = WRITE & set(stage.operators)
    for length in range(1, len(operators()) + 1):
        for chosen in combinations(operators(), length):
            other = StageConfig("+".join(chosen), chosen)
            if other.name not in mine and writing & set(chosen):
                for topic in inputs_of(topology, other):
                    yield changelog_topic(topology.application, other.name, topic), other.name


def _before(name: str) -> list[str]:
    """Stages of which this was one."""
    common = [operator for operator in operators() if not link_of(operator).is_rare]
    rest = [operator for operator in common if operator not in name.split("+")]
    return sorted([name, *rest], key=lambda each: operators().index(each.split("+")[0]))
