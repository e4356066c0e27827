"""Laws: an operator's figures match a full count at any time.

Figures are kept incrementally, so that reading them costs the same for any number of sources. Here
each is compared with the slow count, including after restarts.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.kit.chains import chained
from tests.kit.events import copies
from tests.kit.places import give_back
from tests.kit.runs import held_after_restart, through_changelog
from tests.laws.all_cases import ALL
from tests.laws.cases import Case
from tests.seeds import seeds_of_today
from topology.base.operator import Figures
from topology.order.merge.operator import Merge
from topology.order.merge.source import BEHIND, OUT
from topology.order.reorder.operator import Reorder
from topology.order.reorder.shared import size_of
from topology.stage.chain import Chain
from topology.stage.registry import figures as figures_of_all
from topology.stage.stage import Stage

SEEDS = seeds_of_today(2)
TOTALS = {name for name, figure in figures_of_all().items() if figure.is_total}


def counted(operator: object) -> Figures:
    """Count by looking at all state; leave out figures that cannot be counted that way."""
    if isinstance(operator, Reorder):
        buffers = list(operator._table.values())
        held = list(operator.iter_held())
        return {
            "reorder_sources": len(buffers),
            "reorder_held": len(held),
            "reorder_held_bytes": sum(size_of(event) for event in held),
        }
    if isinstance(operator, Merge):
        sources = list(operator._sources.values())
        queued = list(operator.iter_held())
        return {
            "merge_sources": len(sources),
            "merge_idle": sum(progress.state == OUT for progress in sources),
            "merge_catching_up": sum(progress.state == BEHIND for progress in sources),
            "merge_blocked": sum(progress.blocked for progress in sources),
            "merge_queued": len(queued),
            "merge_queued_bytes": sum(size_of(event) for event in queued),
        }
    chains = operator.chains.values() if isinstance(operator, Stage) else [operator]
    return {
        figure: value
        for chain in chains
        if isinstance(chain, Chain)
        for node in chain.nodes
        for figure, value in counted(node.operator).items()
    }


def figures_of(operator: object) -> Figures:
    if isinstance(operator, Stage):
        (chain,) = operator.chains.values()
        return chain.figures()
    if isinstance(operator, Reorder | Merge):
        name = "reorder" if isinstance(operator, Reorder) else "merge"
        return chained((name, operator)).figures()
    assert isinstance(operator, Chain)
    return operator.figures()


def kept_figures(figures: Figures) -> Figures:
    """Return the figures that a restart must not change."""
    return {key: value for key, value in figures.items() if key not in TOTALS}


TOLD = [
    case
    for case in ALL
    if isinstance(made := case.make(), Reorder | Merge | Chain)
    or (isinstance(made, Stage) and len(made.chains) == 1)
]


@pytest.mark.parametrize("case", TOLD, ids=repr)
@pytest.mark.parametrize("seed", SEEDS)
def test_figures_match_full_count(case: Case, seed: int) -> None:
    rng = Random(seed)
    operator = case.make()
    raw = case.stream(seed)
    before: Figures = {}
    for event in copies(raw):
        operator.on_batch([event], event.at_ns)
        figures = figures_of(operator)
        assert figures.items() >= counted(operator).items(), f"after {event}"
        for total in TOTALS & figures.keys():
            assert figures[total] >= before.get(total, 0)
        before = figures
        if rng.random() < 0.1:
            held = held_after_restart(operator, raw, case.stamped_from)
            again = case.make()
            give_back(again, through_changelog(operator.snapshot()), held)
            assert kept_figures(figures_of(again)) == kept_figures(figures)
            operator, before = again, figures_of(again)


def test_streams_reach_each_state() -> None:
    """Otherwise `test_figures_match_full_count` would compare only zeros."""
    met: dict[str, int] = {}
    for case in TOLD:
        operator = case.make()
        for event in copies(case.stream(1)):
            operator.on_batch([event], event.at_ns)
            for figure, value in counted(operator).items():
                met[figure] = max(met.get(figure, 0), value)
    states = {"idle", "catching_up", "blocked", "queued"}
    assert {"reorder_held", *(f"merge_{name}" for name in states)} <= {
        k for k, v in met.items() if v
    }
