"""Law, against an oracle: a sink's content depends only on the set of results.

This holds for any order, duplicates, batches, restarts and crashes (the sink is dropped as it is),
for each kind of sink. The oracle is `MemorySink`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sinks.result import Result, select_newest
from tests.sinks.kinds import Place
from tests.sinks.results import current_of, result, same

pytestmark = [pytest.mark.redis, pytest.mark.postgres]

ids = st.sampled_from(["a", "b", "ü", "d{}", "e'", "f"])
one_result = st.builds(
    lambda id_, revision, is_retract: result(
        # The content follows from id and revision, as the contract requires.
        id_,
        revision,
        "retract" if is_retract[revision] else None,
    ),
    ids,
    st.integers(0, 9),
    st.just([False, False, True, False, True, True, False, False, False, True]),
)
STEP = st.one_of(st.lists(one_result, max_size=25), st.sampled_from(["restart", "crash"]))


@given(plan=st.lists(STEP, min_size=1, max_size=12))
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_law_order_has_no_effect(new_place: Callable[[], Place], plan: list[Any]) -> None:
    place = new_place()
    sink = place.opened()
    given_: list[Result] = []
    for step in plan:
        if step == "restart":
            sink.close()
            sink = place.opened()
        elif step == "crash":
            release(sink)
            sink = place.opened()
        else:
            assert not sink.write(step)
            given_ += step
    sink.write([result("z", 0)])  # This creates the place if nothing else did.
    sink.close()
    assert same(place.current()) == same(current_of([*given_, result("z", 0)]))


@given(results=st.lists(one_result, max_size=30))
def test_folded_batch_has_same_results(results: list[Result]) -> None:
    folded = select_newest(results)
    assert current_of(folded) == current_of(results)
    assert [each.id for each in folded] == sorted({each.id for each in results})


def release(sink: Any) -> None:
    """Release locks and connections as the process's death does; finish nothing."""
    journal = getattr(sink, "_journal", None)
    if journal is not None:
        journal.release()
    connection = getattr(sink, "_connection", None)
    if connection is not None:
        connection.close()
    client = getattr(sink, "_client", None)
    if client is not None:
        client.close()
