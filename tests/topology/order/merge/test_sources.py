"""Oracle: the least time and the largest error of all sources match a search of every source."""

from __future__ import annotations

from itertools import groupby
from random import Random

import pytest

from tests.laws.streams import MS, raw
from tests.seeds import seeds_of_today
from topology.base.lazy_heap import SPARE
from topology.base.operator import NEVER
from topology.order.merge.operator import Merge
from topology.order.merge.settings import MergeConfig
from topology.order.merge.source import NOTHING_QUEUED, OUT, SourceProgress
from topology.order.reorder.operator import Reorder
from topology.order.reorder.settings import ReorderConfig

SEEDS = seeds_of_today(20)


def fresh() -> Merge:
    config = MergeConfig(
        max_wait_ns=20 * MS,
        idle_after_ns=40 * MS,
        quiet_after_ns=80 * MS,
        heartbeat_ns=10 * MS,
        correct_for_ns=100 * MS,
        reorder=ReorderConfig(max_sources=5),
    )
    return Merge("default", config)


def found(merge: Merge) -> tuple[int, int]:
    return merge._known.least_ns(is_live=True), merge._watermark._least_complete_ns()


def is_over(progress: SourceProgress) -> bool:
    """Return whether the source has ended and lacks no earlier number."""
    return progress.said_bye and not progress.has_missing


def looked_at(merge: Merge) -> tuple[int, int]:
    sources = merge._known.rows.values()
    live = [each.newest_ns for each in sources if each.state < OUT]
    unfinished = [each.complete_ns for each in sources if not is_over(each)]
    falls_ns = [each.set_back_ns for each in sources if not each.said_bye]
    allowance_ns = 2 * max(falls_ns, default=0)
    complete_ns = min(unfinished, default=NEVER)
    if complete_ns < NEVER:
        complete_ns -= min(allowance_ns, merge._config.correct_for_ns)
    return min(live, default=NEVER), complete_ns


def announced(merge: Merge) -> tuple[int, int]:
    said = merge._watermark._make_announcement("default", 0)
    return said.error_ns, said.error_all_ns


def errors_looked_at(merge: Merge) -> tuple[int, int]:
    sources = merge._known.rows.values()
    live = [each.error_ns for each in sources if each.state < OUT]
    unfinished = [each.error_ns for each in sources if not is_over(each)]
    return max(live, default=0), max([0, *live, *unfinished])


@pytest.mark.parametrize("seed", SEEDS)
def test_least_time_matches_search(seed: int) -> None:
    reorder = Reorder("default", ReorderConfig(max_wait_ns=50 * MS))
    merge = fresh()
    rng = Random(seed)
    cuts = [list(run) for _, run in groupby(raw(seed, 240, 8), key=lambda event: event.at_ns)]
    for number, events in enumerate(cuts):
        step = reorder.on_batch(events, events[-1].at_ns)
        for event in step.released:
            event.error_ns = rng.randrange(5) * rng.randrange(2) * MS
        merge.on_batch(step.released, step.now_ns)
        if number == len(cuts) // 2:
            state, held = (
                merge.snapshot(),
                sorted(merge.iter_held(), key=lambda event: event.offset),
            )
            merge = fresh()
            merge.restore(state, held)
        assert found(merge) == looked_at(merge)
        if number % 3:
            assert announced(merge) == errors_looked_at(merge)
    assert not NOTHING_QUEUED  # All sources share this empty queue.


def test_returning_sources_add_few_entries() -> None:
    merge = fresh()
    for at in range(4 * SPARE):
        merge._bounds.make_live(merge._add_source(f"s{at % 7}", at * MS), at)
        assert max(len(merge._known._live.entries), len(merge._known._silent.entries)) < 2 * SPARE
    assert found(merge) == looked_at(merge)


def test_changing_error_leaves_few_entries() -> None:
    merge = fresh()
    progress, errors = merge._add_source("a", 0), merge._known.errors
    for at in range(8 * SPARE):
        progress.error_ns = at % 100
        if progress.error_ns > progress.recorded_error_ns:
            errors.record_growth(progress)
        if at % 70 == 0:
            merge._bounds.retire(progress, OUT)
            merge._bounds.make_live(progress, at)
            assert announced(merge) == errors_looked_at(merge)
        assert max(len(errors._live.entries), len(errors._silent.entries)) < 2 * SPARE
