"""Chooses the stages that run if the topology file names none, and gives the reason.

One stage, named `all`, runs all operators that the file needs. There is no topic between them, so
no event is written and read once more. A task of it reads all input partitions in which a stream
may have records (`topology.config.groups`). Detectors and other functions of users run in a stage
of their own, so that a function that hangs does not stop the order. They are in the first stage if
they need what MERGE accepts, or results of other queries.

The choice depends only on the file, and not on the current state of the brokers. Groups, changelogs
and states belong to stages. So all workers of a group must choose the same stages, even after a
restart. If the file names stages, these are used.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from topology.config.stages import MERGE, REORDER, StageConfig, usual_operators

TOGETHER: Final = (REORDER, MERGE)


class Cut(NamedTuple):
    """The stages that run, and the reason why these were chosen."""

    stages: tuple[StageConfig, ...]
    why: str

    @property
    def has_shared_stage(self) -> bool:
        """Whether reorder and merge share a stage."""
        return any(set(TOGETHER) <= set(stage.operators) for stage in self.stages)


def choose_stages(
    apart: Collection[str], rare: Sequence[str], *, with_merge: bool, is_named: bool
) -> Cut:
    """Return the cut for a topology file that names no stages, or names `all` (`is_named`).

    `apart` are the streams whose records may be in several partitions, or that are joined. `rare`
    has the rare operators for which there is a query. They share the stage of MERGE if `with_merge`
    is true, and otherwise each of them is a stage.
    """
    first = StageConfig((*usual_operators(), *(rare if with_merge else ())), is_default=True)
    rest = [] if with_merge else [StageConfig((name,)) for name in rare]
    why = "each partition is a task, as each stream is in one partition (`keyed_by: stream`)"
    if apart:
        named = ", ".join(f"`{name}`" for name in sorted(apart))
        why = f"one task reads all partitions in which records of {named} may be"
    chosen = f"`{first.name}` has what the file needs" if is_named else "the file names no stages"
    return Cut((first, *rest), f"{chosen}, and {why}")
