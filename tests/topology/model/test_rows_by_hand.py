"""Law: a class that makes its row by hand makes that of its shape."""

from __future__ import annotations

from random import Random

from tests.kit.queries import Output, window_query
from tests.seeds import seeds_of_today
from topology.merge.source import SOURCE, SourceProgress
from topology.model.event import Event
from topology.model.histogram import HISTOGRAM, Histogram
from topology.published.merge import PACED_SOURCE, PacedProgress
from topology.reorder.by_time import TIMED, ReorderByTime
from topology.reorder.settings import ReorderConfig
from topology.reorder.timeout import FILL_TIMES, FillTimes
from topology.window.cells import Makers
from topology.window.panes import Pane, pane_shape


def test_of_histograms_and_sources() -> None:
    rng = Random(seeds_of_today(1)[0])
    pool = Histogram(1_000)
    for kind, shape in ((SourceProgress, SOURCE), (PacedProgress, PACED_SOURCE)):
        progress = kind("s", 1_000)
        for name, field in zip(shape.fields, shape.kinds, strict=True):
            if field.exact is int and name != "received":
                setattr(progress, name, rng.randrange(3, 1 << 40))
        for seq in (4, 9):
            event = Event("", "s", 1, seq, 0, 0)
            progress.follow(event, seq)
        progress.sample(rng.randrange(1 << 40), pool)
        assert progress.dump() == shape.row(progress)
    assert pool.dump() == HISTOGRAM.row(pool)


def test_of_reorder() -> None:
    times = FillTimes(1_000)
    times.opened()
    times.filled_in(9)
    assert times.dump() == FILL_TIMES.row(times)
    by_time = ReorderByTime("default", ReorderConfig(rule="time"))
    by_time.on_batch([Event("", "s", 0, 7, 5, 5)], 5)
    source = by_time._table["s"]
    assert source.dump() == TIMED.row(source)


def test_of_panes() -> None:
    query = window_query("q", "tumbling", (Output("n", "count"),), 9)
    makers = Makers([*query.outputs.values()], {})
    pane, event = Pane(makers.row()), Event("", "s", 1, 2, 5, 5)
    event.ref_time_ns, event.error_ns = 5, 3
    shape = pane_shape(makers)
    assert pane.dump() == shape.row(pane)
    pane.add(event, (1,))
    pane.add_unsure(event, (1,), (0, 9), 1)
    assert pane.dump() == shape.row(pane)
    assert pane.unsure
