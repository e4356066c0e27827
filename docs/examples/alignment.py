"""Two lanes meet in one partition of a derived topic: what leaves, and when."""

from topology.flow.alignment import Alignment
from topology.flow.lanes import lanes_of
from topology.model.event import DATA, PROGRESS, Event

alignment = Alignment(lanes_of("raw", 2), max_queued=1_000)
for lane, at_ns, kind in [(0, 10, DATA), (0, 20, DATA), (1, 12, DATA), (1, 30, PROGRESS)]:
    event = Event("default", f"lane {lane}", 0, 0, at_ns, at_ns, kind=kind)
    event.lane = lane
    step = alignment.on_batch([event], at_ns)
    leaves = [(each.source, each.at_ns) for each in step.released]
    waits = alignment.waiting_for()
    print(f"lane {lane} at {at_ns} {kind or 'event'}: leaves {leaves}, waits for {waits}")
