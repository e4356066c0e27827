"""The contract of all operators.

An operator belongs to one stream in one input partition. It does no I/O and has
no clock: time comes in as an argument and never goes back.

* `on_batch(events, now_ns)` takes events in log order, `at_ns` non-decreasing and
  not below the last time it was given. Before each event the deadlines < its
  `at_ns` fire, each at its own time; after the last one those < `now_ns`. An event
  that arrives in the very instant of a deadline is thus in time, and how a
  stretch of input is cut into batches changes nothing.
* `on_time(now_ns)`: nothing arrived up to and including `now_ns`; the deadlines
  <= `now_ns` fire, each at its own time.
* `next_deadline_ns()`: `on_time` before it does nothing. None: nothing to wait for.
* `on_end(now_ns)`: the input is over (bounded replay); what is held leaves in order.
* `snapshot()` is the whole state, `changes()` what changed in it since the last
  `changes()` (None: the key is gone). Neither holds the events themselves: they
  are in the log already. `held()` names them, and `restore(state, held)` takes
  both back into a fresh operator, the events in log order. `restoring` is the same step by
  step, for an operator that may hold very many.

What an operator does not say of itself has a default: one without deadlines, state and held
events writes `on_batch` alone.

No part of the state:

* `waiting()` are those held that it has not let pass: the `held` of the balance. An operator
  may keep an event beyond letting it pass, for what may still come; `let_go()` names such
  events that it keeps no longer.
* `overhear(found)` tells an operator what those before it in its chain have found, ahead of the
  batch in which it would have come; most do not care.
* `figures()` says how the operator stands, in O(1): integers by name, a duration or an
  instant ending in `_ns`; one that is not known yet is left out. Its room says in a table of
  `Figure` what each means and which are totals.
* `explain()` says in nested plain values what waits, for what and until when. It may
  take as long as there are sources.
* `locate()` says where one event is (topology.model.whereabouts), `counts_of()` what has come of
  one source; neither takes as long as there are sources.

Laws that hold for every operator, run from tests/laws: deterministic; batch cuts
change nothing; snapshot and restore at any point change nothing; `on_time` before
the deadline does nothing; in = released + reported + held; applying all `changes()`
gives `snapshot()`; state stays within its bound; replaying a stretch of input
already seen gives only duplicates and late events.

Proved by: tests/laws/test_laws.py, tests/laws/test_figures.py,
tests/topology/flow/test_new_operator.py
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from topology.model.event import Event
from topology.model.native import mypyc_attr
from topology.model.outcome import Step
from topology.model.result import Finding

TURN: Final = 2_048
"""Events that are only looked at, in one step of `restoring`."""

NEVER: Final = 1 << 62
"""An instant that does not come."""

Plain = Any
"""Nested lists, dicts, strings, ints, booleans and None: what any codec can carry."""

State = dict[str, Plain]
Changes = dict[str, Plain]
Figures = dict[str, int]


class Figure(NamedTuple):
    """What a number of `figures()` means, in a line for those who read metrics. A total counts
    what has happened and only grows, but may begin anew after a restore; all others say what is."""

    text: str
    is_total: bool = False


@mypyc_attr(allow_interpreted_subclasses=True)
class Operator:
    """See the module's docstring; `topology.flow` composes operators."""

    takes_plain: bool = True
    """What is plain may go a short way. Tests switch that off, which changes no answer."""

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        raise NotImplementedError

    def on_time(self, now_ns: int) -> Step:
        return Step(now_ns)

    def next_deadline_ns(self) -> int | None:
        return None

    def on_end(self, now_ns: int) -> Step:
        return self.on_time(now_ns)

    def snapshot(self) -> State:
        return {}

    def changes(self) -> Changes:
        """By default the whole state, for an operator with a small one whose keys stay."""
        return self.snapshot()

    def held(self) -> Iterable[Event]:
        return ()

    def restore(self, state: Mapping[str, Plain], held: Iterable[Event]) -> None:
        """An operator without a state has nothing to restore."""

    def restoring(self, state: Mapping[str, Plain], held: Iterable[Event]) -> Iterator[int]:
        """`restore` as a generator of how many events each step has taken; the operator is whole
        when it ends. By default one step takes all."""
        events = list(held)
        self.restore(state, events)
        yield len(events)

    def overhear(self, found: Sequence[Finding]) -> None:
        """By default nobody listens."""

    def waiting(self) -> Iterable[Event]:
        return self.held()

    def let_go(self) -> list[Event]:
        """Since this was last asked."""
        return []

    def figures(self) -> Figures:
        return {}

    def explain(self) -> dict[str, Plain] | None:
        """None: the operator never has anything to explain."""
        return None

    def locate(self, source: str, epoch: int, seq: int) -> dict[str, Plain] | None:
        """None: the operator knows nothing of this source, or of single events. NO_EPOCH asks for
        the epoch in force."""
        return None

    def counts_of(self, source: str) -> Figures:
        """What has come of one source and become of it since it was first heard; none: unknown."""
        return {}

    def close(self) -> None:
        """Let go of what is shared with others; the operator is not used after."""


@mypyc_attr(allow_interpreted_subclasses=True)
class StepByStep(Operator):
    """An operator that may hold very many events: it has `restoring`, and so `restore`."""

    def restore(self, state: Mapping[str, Plain], held: Iterable[Event]) -> None:
        for _ in self.restoring(state, held):
            pass

    def restoring(self, state: Mapping[str, Plain], held: Iterable[Event]) -> Iterator[int]:
        raise NotImplementedError
