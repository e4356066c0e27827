"""Runs the aggregates of the functions file, which queries use by name.

Such an aggregate needs no inverse function, because sliding windows share work by combining states
(`topology.queries.window.panes`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from topology.answer.query.numbers import number
from topology.base.operator import Plain
from topology.queries.window.aggregates.cell import AggregateCell, Placed
from topology.state.saved import PLAIN, Shape


def keep_as_is(state: Plain) -> Plain:
    return state


class Function(NamedTuple):
    """An aggregate that is written in Python.

    States are plain values and are not changed in place. `add` and `combine` must not depend on the
    order of events; otherwise results depend on it too.

    Attributes:
        init: A function that returns the state without values.
        add: A function that returns the state after one more value.
        combine: A function that returns the combination of two states.
        value: A function that returns the value that results show for a state.
        usable: A function that returns the value to pass to `add` for a value of the payload, or
            None to leave it out.
    """

    init: Callable[[], Plain]
    add: Callable[[Plain, Any], Plain]
    combine: Callable[[Plain, Plain], Plain]
    value: Callable[[Plain], Plain] = keep_as_is
    usable: Callable[[Any], Any] = number


class Custom(AggregateCell):
    """A cell with the state of a `Function`.

    If `add` or `combine` raises, the state does not change; if `value` raises, the value is None.
    `failures[0]` counts these exceptions. If the window has uncertain events, both bounds are None.
    """

    SHAPE = Shape("window.custom", 1, state=PLAIN)
    __slots__ = ("failures", "function", "state")

    def __init__(self, function: Function, failures: list[int]) -> None:
        self.function = function
        self.failures = failures
        self.state = function.init()

    def add(self, value: Any, event: Placed) -> None:
        self.state = self._call_safely(self.state, self.function.add, self.state, value)

    def merge(self, other: Any) -> None:
        self.state = self._call_safely(self.state, self.function.combine, self.state, other.state)

    def copy(self) -> Custom:
        twin = Custom(self.function, self.failures)
        twin.state = self.state
        return twin

    def value(self) -> Any:
        return self._call_safely(None, self.function.value, self.state)

    def _call_safely(self, otherwise: Any, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except Exception:  # noqa: BLE001 - a user's code
            self.failures[0] += 1
            return otherwise
