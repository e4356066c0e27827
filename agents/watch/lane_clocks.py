"""The clocks of the sources that wait or come late, beside those that are least sure.

CLOCK tells of the sources whose time is least sure, for it does not know who waits; REORDER tells
who waits, and knows no clocks. Whoever looks at a source that waits, or is late, wants both.

Cost: O(sources that wait), twice `MAX_ASKED` questions a stream; only while somebody looks.

Proved by: tests/agents/watch/test_lane_clocks.py
"""

from __future__ import annotations

from heapq import nlargest, nsmallest
from operator import itemgetter
from typing import Any, Final

from agents.watch.troubled import Troubled
from topology.flow.stage import Stage
from topology.model.event import NO_EPOCH

MAX_ASKED: Final = 100
REORDER: Final = "reorder"
CLOCK: Final = "clock"


def explained(stage: Stage, troubled: Troubled, most: int) -> dict[str, Any]:
    """What the stage explains, and who is `troubled`: the `most` worst, and the `MAX_ASKED` sources
    of each stream that wait the longest. Among the clocks of each stream are those of the latter
    too, and of as many of the former that are late most often."""
    found = stage.explain()
    waiting = {
        stream: nsmallest(MAX_ASKED, operators[REORDER]["waiting"], itemgetter("since"))
        for stream, operators in found["streams"].items()
        if REORDER in operators
    }
    asked = ((stream, each["source"]) for stream, told in waiting.items() for each in told)
    told_of = troubled.explain(most, asked)
    for stream, operators in found["streams"].items():
        if not (REORDER in operators and CLOCK in operators):
            continue
        clocks = operators[CLOCK]["clocks"]
        told = {each["source"] for each in clocks}
        (clock,) = (node.operator for node in stage.chains[stream].nodes if node.name == CLOCK)
        late = [each for each in told_of if each["stream"] == stream]
        wanted = [*waiting[stream], *nlargest(MAX_ASKED, late, itemgetter("late"))]
        for each in wanted:
            if each["source"] not in told:
                told.add(each["source"])
                its = clock.locate(each["source"], NO_EPOCH, 0)
                if its is not None:  # else its first events wait
                    clocks.append(its)
    return {"troubled": told_of, **found}
