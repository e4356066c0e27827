"""Make seeded workloads: the events of each source, their arrivals, and figures to verify them.

Every recipe is a function of its seed alone. It returns a `Workload`: rows in arrival order, and
the events lost and duplicated on the way. There is one random generator per purpose,
`random.Random(seed * 1000 + purpose)`, so that changing one law leaves the others unchanged. Only
its `random()` and `shuffle()` are used.

| module     | recipes                                                            |
|------------|--------------------------------------------------------------------|
| `soccer`   | D1, D2, D3 of the thesis                                           |
| `mishap`   | the same rows with events lost                                     |
| `crowd`    | twenty sources with every kind of disorder: work for the whole core |
| `changing` | delay laws, rates and loss that change in mid-stream               |
"""

from benchmarks.workloads.changing import bursts, loss_storm, rate_steps, regimes
from benchmarks.workloads.crowd import crowd
from benchmarks.workloads.mishap import lose
from benchmarks.workloads.rows import Figures, Row, Workload, figures, to_events
from benchmarks.workloads.soccer import D1, D2, D3, Recipe, soccer

__all__ = [
    "D1",
    "D2",
    "D3",
    "Figures",
    "Recipe",
    "Row",
    "Workload",
    "bursts",
    "crowd",
    "figures",
    "lose",
    "loss_storm",
    "rate_steps",
    "regimes",
    "soccer",
    "to_events",
]
