"""Examples: values that aggregates leave out are counted by field and kind, with an example."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.queries import Output, window_query
from tests.topology.queries.window.streams import MS, START, event
from topology.base.field_use import FieldUse, Unusable, join
from topology.queries.window.left_out import EXAMPLE_CHARS
from topology.queries.window.operator import Windows

SUM = Output("total", "sum", ("v",))
OTHERS = {
    "by columns": (SUM, Output("mean", "avg", ("v",))),
    "one by one": (SUM, Output("spread", "stddev", ("v",))),
}


def uses_of(payloads: list[Any], *outputs: Output, size: int = 0) -> list[FieldUse]:
    """Return the uses of the fields after events with the given payloads, in batches of `size`."""
    operator = Windows("default", window_query("q", "tumbling", outputs, 10 * MS, 10 * MS))
    events = [event("s", seq, 1 + seq / 1_000, each) for seq, each in enumerate(payloads)]
    size = size or len(events)
    for at in range(0, len(events), size):
        operator.on_batch(events[at : at + size], START + 2 * MS)
    return operator.field_uses()


@pytest.mark.parametrize("size", [1, 2, 99])
@pytest.mark.parametrize("outputs", OTHERS.values(), ids=OTHERS)
def test_unusable_values_count_by_kind(outputs: tuple[Output, ...], size: int) -> None:
    values: list[Any] = ["-18,0", True, 7, "x", {"n": 1}, [1, 2], float("nan"), None, 2.5]
    payloads = [*({"v": each} for each in values), {}, b"{", {"other": 1}]
    (use,) = uses_of(payloads, *outputs, size=size)
    assert use[:3] == ("q", "total", "payload.v")
    assert (use.absent, use.absent_in_row) == (4, 3)
    assert use.unusable == (
        Unusable("text", 2, '"-18,0"'),
        Unusable("booleans", 1, "true"),
        Unusable("objects", 1, '{"n"}'),
        Unusable("lists", 1, "one of length 2"),
        Unusable("numbers out of range", 1, "nan"),
    )


def test_each_aggregate_has_its_own_kinds() -> None:
    """`last` can use the text that `sum` cannot."""
    total, last = uses_of([{"v": "open"}, {"v": []}], SUM, Output("last", "last", ("v",)))
    assert [(each.kind, each.n) for each in total.unusable] == [("text", 1), ("lists", 1)]
    assert [(each.kind, each.n) for each in last.unusable] == [("lists", 1)]


def test_value_ends_run_of_missing_fields() -> None:
    (use,) = uses_of([{}, {}, {"v": "text"}, {}], SUM)
    assert (use.absent, use.absent_in_row) == (3, 1)


LONG = 1_000_000


@pytest.mark.parametrize(
    "value",
    ["x" * LONG, "\ud800" * LONG, {"x" * LONG + str(n): n for n in range(5)}, [1] * LONG, 10**400],
    ids=["text", "no UTF-8", "object", "list", "integer"],
)
def test_example_of_bad_value_is_short(value: Any) -> None:
    (use,) = uses_of([{"v": value}], SUM)
    example = use.unusable[0].example
    assert len(example.encode()) < 8 * EXAMPLE_CHARS


def test_uses_of_one_field_are_joined() -> None:
    one = FieldUse("q", "a", "payload.v", 3, 2, (Unusable("text", 1, '"x"'),))
    other = FieldUse("q", "a", "payload.v", 4, 0, (Unusable("text", 2, '"y"'),))
    more = other._replace(unusable=(*other.unusable, Unusable("lists", 1, "one of length 0")))
    assert join(one, more) == FieldUse(
        "q",
        "a",
        "payload.v",
        7,
        2,
        (Unusable("text", 3, '"x"'), Unusable("lists", 1, "one of length 0")),
    )
