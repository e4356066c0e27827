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
* `on_end(now_ns)`: the input is over (bounded replay); what is held leaves in order. `seal` comes
  before it: what only the end decides is neither sure nor final.
* `snapshot()` is the whole state, `changes()` what changed in it since the last
  `changes()` (None: the key was removed). Neither holds the events themselves: they
  are in the log already. `held()` names them, and `restore(state, held)` takes
  both back into a fresh operator, the events in log order. An operator writes `restoring`.
* `close()`: the operator lets go of what it shares with others, and is not used after.

An operator may keep an event beyond letting it pass, for what may still come. It says so by
`keeps_passed`, and names such events that it keeps no longer in `Step.freed`.

What people ask of an operator is `Described`, no part of its state. All methods but `on_batch` have
a default: an operator without deadlines, state and held events writes that one alone.

An operator whose state is declared is a `KeptOperator` (topology.model.kept_operator), one that is
made of others a `Composite` (topology.model.composite).

Laws that hold for every operator, run from tests/laws: deterministic; batch cuts
change nothing; snapshot and restore at any point change nothing; `on_time` before
the deadline does nothing; in = released + reported + held; applying all `changes()`
gives `snapshot()`; state stays within its bound; replaying a stretch of input
already seen gives only duplicates and late events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from topology.model.event import Event
from topology.model.native import mypyc_attr
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


class Figure(NamedTuple):
    """What a number of `figures()` means, in a line for those who read metrics. A total counts
    what has happened and only grows, but may begin anew after a restore; all others say what is."""

    text: str
    is_total: bool = False


def total(text: str) -> Figure:
    """Return the meaning of a figure that only grows."""
    return Figure(text, is_total=True)


@mypyc_attr(allow_interpreted_subclasses=True)
class Described:
    """What people ask of an operator: for metrics, the page and `inorder explain`."""

    def figures(self) -> Figures:
        """Counts and durations by name, in O(1). A duration or an instant ends in `_ns`; one that
        is not known yet is left out. `FIGURES` of the operator's module says in a table of `Figure`
        what each means and which are totals."""
        return {}

    def explain(self) -> dict[str, Plain] | None:
        """What waits, for what and until when, in nested plain values; O(sources). None: the
        operator never has anything to explain."""
        return None

    def locate(self, source: str, epoch: int, seq: int) -> dict[str, Plain] | None:
        """Where one event is (topology.model.location), in less than O(sources). None: the
        operator knows nothing of this source, or of single events. NO_EPOCH asks for the epoch in
        force."""
        return None

    def counts_of(self, source: str) -> Figures:
        """What has come of one source and become of it since its first event, in less than
        O(sources). Empty: the source is unknown."""
        return {}


@mypyc_attr(allow_interpreted_subclasses=True)
class Operator(Described):
    """How an operator runs and saves its state; see the module's docstring."""

    takes_plain: bool = True
    """What is plain may go a short way. Tests switch that off, which changes no answer."""

    keeps_passed: bool = False
    """What it holds it has let pass already, so the balance does not count it as held."""

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        raise NotImplementedError

    def on_time(self, now_ns: int) -> Step:
        return Step(now_ns)

    def next_deadline_ns(self) -> int | None:
        return None

    def seal(self) -> None:
        """The input is over. What comes from here on was let go by its end alone, and what only
        that decides is `UNPROVEN` (`topology.model.result`). Then comes `on_end`."""

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
        """Restore at once."""
        for _ in self.restoring(state, [*held]):
            pass

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        """Restore in steps. Each tells how many events it has taken, and the operator is whole
        after the last. One without a state has nothing to restore."""
        return iter(())

    def close(self) -> None:
        """By default nothing is shared."""
