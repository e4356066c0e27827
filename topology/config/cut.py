"""Chooses the stages that run if the topology file names none, and gives the reason.

Reorder and merge are one stage if each stream is in one partition of its input. Then there is no
topic between them, so no event is written and read once more. Either the records are keyed by
stream (`keyed_by: stream`), or there is only one partition (`topics.partitions: 1`). Otherwise they
are two stages. A file that names one stage for both has one task for all partitions of the inputs
in which a stream may have records (`topology.config.groups`).

The choice depends only on the file, and not on the current state of the brokers. Groups, changelogs
and states belong to stages. So all workers of a group must choose the same stages, even after a
restart. If the file names stages, these are used.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from topology.config.stages import MERGE, REORDER, StageConfig, each_alone
from topology.config.stream import StreamConfig

TOGETHER: Final = (REORDER, MERGE)
ONE: Final = "reorder and merge are one stage, as "
TWO: Final = "reorder and merge are two stages, as "


class Cut(NamedTuple):
    """The stages that run, and the reason why these were chosen."""

    stages: tuple[StageConfig, ...]
    why: str

    @property
    def is_one(self) -> bool:
        """Whether reorder and merge share a stage."""
        return any(set(TOGETHER) <= set(stage.operators) for stage in self.stages)

    def with_merge(self, moved: Sequence[str]) -> Cut:
        """Return the cut with the operators `moved` in the stage of MERGE.

        Each of them must be a separate stage in this cut.
        """
        stages = [stage for stage in self.stages if not {*stage.operators} & {*moved}]
        at = next(n for n, stage in enumerate(stages) if MERGE in stage.operators)
        stages[at] = StageConfig((*stages[at].operators, *moved))
        return self._replace(stages=tuple(stages))

    def joining(self, met: Collection[str]) -> Cut:
        """Return the cut with one stage in place of several.

        These are all stages from the first to the last that run an operator of `met`.
        """
        at = [n for n, stage in enumerate(self.stages) if {*stage.operators} & {*met}]
        first, last = at[0], at[-1] + 1
        together = tuple(name for stage in self.stages[first:last] for name in stage.operators)
        stages = (*self.stages[:first], StageConfig(together), *self.stages[last:])
        return self._replace(stages=stages)


def default_cut(
    streams: Mapping[str, StreamConfig],
    partitions: int,
    joined: Collection[Collection[str]],
    rare: Collection[str] = (),
) -> Cut:
    """Return the cut for a topology file that names no stages.

    `joined` has the streams of each join. `rare` has the rare operators for which there is a query
    (`each_alone`).
    """
    alone = each_alone(rare)
    apart = [name for name, stream in streams.items() if stream.keyed_by == "source"]
    for met in joined:
        inputs = {streams[name].input for name in met if name in streams}
        if len(met) > 1 and (partitions > 1 or len(inputs) > 1):
            names = " and ".join(sorted(met))
            return Cut(alone, f"{TWO}streams {names} are joined, and meet only after the merge")
    if apart and partitions > 1:
        name = apart[0]
        why = (
            f"{TWO}the sources of stream `{name}` may be in several partitions of"
            f" {streams[name].input} (`keyed_by: stream`, or one partition, makes them one stage)"
        )
        return Cut(alone, why)
    why = "`keyed_by: stream`: each stream is in one partition of its input"
    if apart:
        why = "`topics.partitions` is 1, so each stream is in one partition"
    rest = [stage for stage in alone if not {*stage.operators} & {*TOGETHER}]
    return Cut((StageConfig(TOGETHER), *rest), f"{ONE}{why}")
