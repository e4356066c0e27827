"""The contract of all operators.

An operator belongs to one stream in one input partition. It does no I/O and has
no clock: time comes in as an argument and never goes back.

* `on_batch(events, now_ns)` takes events in log order, `at_ns` non-decreasing and
  not below the last time it was told. Before each event the deadlines < its
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
  both back into a fresh operator, the events in log order.

Optional, and no part of the state:

* `explain()` tells in nested plain values what waits, for what and until when. It may
  take as long as there are sources.
* `let_go`, a list: the operator holds events beyond letting them pass, for what may still
  come; here are those it no longer holds, until the driver takes them.
* `restoring(state, held)` is `restore` step by step, for an operator that may hold very many:
  a generator of how many events each step has taken. The operator is whole when it ends.
* `figures()` tells how the operator stands, in O(1): integers by name, a duration or an
  instant ending in `_ns`; one that is not known yet is left out. `TOTALS` only grow, but
  may begin anew after a restore.

Laws that hold for every operator, run from tests/laws: deterministic; batch cuts
change nothing; snapshot and restore at any point change nothing; `on_time` before
the deadline does nothing; in = released + reported + held; applying all `changes()`
gives `snapshot()`; state stays within its bound; replaying a stretch of input
already seen gives only duplicates and late events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from topology.model.event import Event
from topology.model.outcome import Step

TURN: Final = 2_048
"""Events that are only looked at, in one step of `restoring`."""

NEVER: Final = 1 << 62
"""An instant that does not come."""

Plain = Any
"""Nested lists, dicts, strings, ints, booleans and None: what any codec can carry."""

State = dict[str, Plain]
Changes = dict[str, Plain]
Figures = dict[str, int]

TOTALS: Final = frozenset(
    {
        "conflicts",
        "contradicted",
        "copies",
        "emitted",
        "expired",
        "failed",
        "forgotten",
        "given_up",
        "irrelevant",
        "jumps",
        "late",
        "missed_apart",
        "missed",
        "overflows",
        "refused",
        "retracted",
        "skipped",
        "unkeyed",
        "unpartitioned",
        "unreadable",
        "updated",
    }
)
"""Figures that count what has happened; all others say what is."""


class Operator(Protocol):
    """See the module's docstring; `topology.flow.chain` composes operators."""

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step: ...

    def on_time(self, now_ns: int) -> Step: ...

    def next_deadline_ns(self) -> int | None: ...

    def on_end(self, now_ns: int) -> Step: ...

    def snapshot(self) -> State: ...

    def changes(self) -> Changes: ...

    def held(self) -> Iterable[Event]: ...

    def restore(self, state: Mapping[str, Plain], held: Iterable[Event]) -> None: ...


class StepByStep:
    """What an operator with `restoring` has for `restore`."""

    def restore(self, state: Mapping[str, Plain], held: Iterable[Event]) -> None:
        for _ in self.restoring(state, held):
            pass

    def restoring(self, state: Mapping[str, Plain], held: Iterable[Event]) -> Iterator[int]:
        raise NotImplementedError


def restored_by_steps(
    operator: Operator, state: Mapping[str, Plain], held: Sequence[Event]
) -> Iterator[int]:
    """`restoring` of any operator: one that has none takes all in one step."""
    if isinstance(operator, StepByStep):
        yield from operator.restoring(state, held)
    else:
        operator.restore(state, held)
        yield len(held)
