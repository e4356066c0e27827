"""Defines the contract of all operators.

An operator belongs to one stream in one input partition. It does no I/O and has no clock: time is
an argument and never goes back.

* `on_batch(events, now_ns)` takes events in log order. Their `at_ns` never falls, and is not below
  the last time that the operator was given. Before each event, the deadlines < its `at_ns` fire,
  each at its own time. After the last event, those < `now_ns` fire. So an event that arrives in the
  very instant of a deadline is in time, and the cuts between batches change nothing.
* `on_time(now_ns)` says that nothing arrived up to and including `now_ns`. The deadlines <=
  `now_ns` fire, each at its own time.
* `next_deadline_ns()` is the time before which `on_time` does nothing, or None if nothing is due.
* `on_end(now_ns)` ends the input (bounded replay), and held events leave in order. `seal` comes
  before it. A result that only the end decides is neither certain nor final.
* `snapshot()` is the whole state. `changes()` is what changed in it since the last `changes()`
  (None: the key was removed). Neither has the events themselves, which are in the log already.
* `held()` names these events. `restore(state, held)` takes both back into a fresh operator, the
  events in log order. An operator implements `restoring`.
* `close()` releases what the operator shares with others. It is not used afterwards.

An operator may keep an event after passing it on, because of events that may still come. It
declares that by `keeps_passed`, and lists the events that it keeps no longer in `Step.freed`.

The last four methods answer what people ask of an operator, and are no part of its state. All
methods but `on_batch` have a default. An operator without deadlines, state and held events
implements only that.

An operator whose state is declared is a `KeptOperator` (topology.model.kept_operator). One that is
made of others is a `Composite` (topology.model.composite).

Laws that hold for every operator, run from tests/laws:

* it is deterministic;
* the cuts between batches change nothing;
* snapshot and restore at any point change nothing;
* `on_time` before the deadline does nothing;
* in = released + reported + held;
* applying all `changes()` gives `snapshot()`;
* state stays within its bound;
* replaying a stretch of input already seen gives only duplicates and late events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from topology.model.event import Event
from topology.model.native import mypyc_attr
from topology.model.outcome import Step

TURN: Final = 2_048
"""`restoring` takes a step at least after this many events or rows."""

NEVER: Final = 1 << 62
"""An instant that never comes."""

Plain = Any
"""Nested lists, dicts, strings, ints, booleans and None, which any codec can carry."""

State = dict[str, Plain]
Changes = dict[str, Plain]
Figures = dict[str, int]


class Figure(NamedTuple):
    """The description of a figure of `figures()`, as a line for those who read metrics.

    A total counts occurrences. It only grows, but may start again after a restore. All other
    figures describe the present.
    """

    text: str
    is_total: bool = False


def total(text: str) -> Figure:
    """Return the description of a figure that only grows."""
    return Figure(text, is_total=True)


@mypyc_attr(allow_interpreted_subclasses=True)
class Operator:
    """The base class of operators. The text of the module is its contract."""

    takes_plain: bool = True
    """True if plain events may take a short cut. Tests switch it off; the outcomes are the same."""

    keeps_passed: bool = False
    """True if it has already emitted the events that it holds, so they do not count as held."""

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        raise NotImplementedError

    def on_time(self, now_ns: int) -> Step:
        return Step(now_ns)

    def next_deadline_ns(self) -> int | None:
        return None

    def seal(self) -> None:
        """Announce the end of the input, before `on_end`.

        Events from here on were emitted only because the input ended. Results that only the end
        decides are `UNPROVEN` (`topology.model.result`).
        """

    def on_end(self, now_ns: int) -> Step:
        return self.on_time(now_ns)

    def snapshot(self) -> State:
        return {}

    def changes(self) -> Changes:
        """Return the changes since the last call: by default the whole state.

        The default suits an operator with a small state whose keys are never removed.
        """
        return self.snapshot()

    def held(self) -> Iterable[Event]:
        return ()

    def restore(self, state: Mapping[str, Plain], held: Iterable[Event]) -> None:
        """Restore the state and the held events in one call."""
        for _ in self.restoring(state, [*held]):
            pass

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        """Restore the state and the held events in steps.

        Each step yields how many events it has restored. The operator is complete after the last
        step. By default there is nothing to restore.
        """
        return iter(())

    def close(self) -> None:
        """Release the resources that are shared with other operators. By default there are none."""

    # -- for people: metrics, the page and `inorder explain` ---------------------------------------

    def figures(self) -> Figures:
        """Return counts and durations by name, in O(1).

        The name of a duration or an instant ends in `_ns`. A figure that is not known yet is left
        out. The table `FIGURES` of the operator's module describes each figure by a `Figure`, and
        marks the totals.
        """
        return {}

    def explain(self) -> dict[str, Plain] | None:
        """Return which events are buffered, why and until when, in nested plain values; O(sources).

        None means that the operator never has anything to explain.
        """
        return None

    def locate(self, source: str, epoch: int, seq: int) -> dict[str, Plain] | None:
        """Return where one event is (topology.model.location), in less than O(sources).

        None means that the operator knows nothing of this source, or of single events. NO_EPOCH
        asks for the current epoch.
        """
        return None

    def counts_of(self, source: str) -> Figures:
        """Return the counts of one source's events and of their outcomes, in less than O(sources).

        The counts start at its first event. They are empty if the source is unknown. A chain
        answers with its first operator that counts, so a later operator uses `explain` instead.
        """
        return {}
