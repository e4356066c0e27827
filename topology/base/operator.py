"""Defines the contract of all operators.

An operator belongs to one stream in one input partition. It does no I/O and has no clock: time is
an argument and never goes back.

* `on_batch(events, now_ns)` processes events in log order. Their `at_ns` never decreases, and is
  not below the last time that the operator was given. Before each event, the deadlines < its
  `at_ns` fire, each at its own time. After the last event, those < `now_ns` fire. So an event that
  arrives at the exact instant of a deadline is in time, and the division into batches has no
  effect.
* `on_time(now_ns)` declares that nothing arrived up to and including `now_ns`. The deadlines <=
  `now_ns` fire, each at its own time.
* `next_deadline_ns()` is the time before which `on_time` does nothing, or None if nothing is due.
* `on_end(now_ns)` ends the input of a bounded replay; held events are emitted in order. `seal` is
  called before it. A result that was decided only because the input ended is neither certain nor
  final.
* `snapshot()` is the whole state. `changes()` has the rows that have changed since the last call of
  `changes()`; None means that the row was removed. Neither contains the events themselves, which
  are in the log.
* `held()` returns the events that the operator keeps. `restore(state, held)` puts state and events
  back into a new operator, with the events in log order. An operator implements it as `restoring`.
* `close()` releases the resources that the operator shares with others. The operator is not used
  afterwards.

An operator that keeps an event says so in `Step.kept`, and in `Step.freed` when it no longer keeps
it. Its caller records where each event is kept (`topology.stage.ledger`). An operator may keep an
event that it has emitted, because later events may need it; it declares that by `keeps_passed`. It
does not change an event that it has emitted.

`figures`, `explain`, `locate` and `counts_of` are for people who inspect an operator, and do not
change its state. All methods except `on_batch` have a default. An operator without deadlines, state
and held events implements only `on_batch`.

An operator whose state is declared is a `SavedOperator` (topology.state.saved_operator). One
that combines others is a `Composite` (topology.base.composite).

Every operator obeys these laws, which tests/laws checks:

* it is deterministic;
* the division into batches has no effect;
* a snapshot and a restore at any point have no effect;
* `on_time` before the deadline does nothing;
* each input event is emitted, reported or held;
* applying all `changes()` gives `snapshot()`;
* state stays within its bound;
* processing part of the input again gives only duplicates and late events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from topology.base.event import Event
from topology.base.field_use import FieldUse
from topology.base.meter import Meter
from topology.base.native import mypyc_attr
from topology.base.outcome import Step

TURN: Final = 2_048
"""The number of events or rows after which `restoring` ends a step."""

NEVER: Final = 1 << 62
"""An instant after all others."""

Plain = Any
"""Nested lists, dicts, strings, ints, booleans and None, which every codec supports."""

State = dict[str, Plain]
Changes = dict[str, Plain]
Figures = dict[str, int]


class Figure(NamedTuple):
    """The description of one of an operator's `figures()`, for people who read metrics.

    A total counts occurrences. It only grows, but may start again from 0 after a restore. All other
    figures describe the present.
    """

    text: str
    is_total: bool = False


def total(text: str) -> Figure:
    """Return the description of a figure that only grows."""
    return Figure(text, is_total=True)


@mypyc_attr(allow_interpreted_subclasses=True)
class Operator:
    """The base class of operators. The docstring of the module is its contract."""

    takes_plain: bool = True
    """Whether plain events may take a shortcut. Tests turn it off; the outcomes are the same."""

    keeps_passed: bool = False
    """Whether the events in `held()` are already emitted; they then do not count as buffered."""

    def on_batch(self, events: Sequence[Event], now_ns: int) -> Step:
        raise NotImplementedError

    def on_time(self, now_ns: int) -> Step:
        return Step(now_ns)

    def next_deadline_ns(self) -> int | None:
        return None

    def seal(self) -> None:
        """Announce the end of the input, before `on_end`.

        All events after this call are emitted only because the input ended. Results that are
        decided only by the end are `UNPROVEN` (`topology.base.result`).
        """

    def on_end(self, now_ns: int) -> Step:
        return self.on_time(now_ns)

    def snapshot(self) -> State:
        return {}

    def changes(self) -> Changes:
        """Return the changes since the last call; by default, the whole state.

        The default suits an operator with a small state whose keys are never removed.
        """
        return self.snapshot()

    def iter_held(self) -> Iterable[Event]:
        return ()

    def restore(self, state: Mapping[str, Plain], held: Iterable[Event]) -> None:
        """Restore the state and the held events in one call."""
        for _ in self.restoring(state, [*held]):
            pass

    def restoring(self, state: Mapping[str, Plain], held: Sequence[Event]) -> Iterator[int]:
        """Restore the state and the held events in steps, as an iterator.

        Each step yields the number of events that it has restored. The operator is complete after
        the last step. By default there is nothing to restore.
        """
        return iter(())

    def begin_late(self, since_ns: int, error_ns: int) -> None:
        """Let queries that were restored without a state begin at an instant after all old events.

        Call it after `restore`. The time errors of later events are at most `error_ns`. By default
        nothing begins late.
        """

    def source_of(self, key: str) -> str:
        """Return the source that a key of the state belongs to, or "" if it is of all sources."""
        return ""

    def renumber(self, numbers: Mapping[int, int]) -> None:
        """Replace the offsets of held events in the state, by the former ones, before `snapshot`.

        Most operators save no offsets. The caller changes the events themselves.
        """

    def measure(self, meter: Meter) -> None:
        """Time the queries by this meter from now on. By default there are none."""

    def close(self) -> None:
        """Release the resources that are shared with other operators. By default there are none."""

    # -- for people: metrics, the page and `inorder explain` ---------------------------------------

    def figures(self) -> Figures:
        """Return counts and durations by name, in O(1).

        The name of a duration or an instant ends in `_ns`. A figure without a value yet is left
        out. The table `FIGURES` in the operator's module describes each figure by a `Figure`, and
        marks the totals.
        """
        return {}

    def field_uses(self) -> list[FieldUse]:
        """Return the values that queries left out, by query and field, in O(fields of queries).

        The counts only grow, but start again from 0 after a restore.
        """
        return []

    def explain(self) -> dict[str, Plain] | None:
        """Return which events are buffered, why, and until when, as plain values, in O(sources).

        None means that the operator never has anything to explain.
        """
        return None

    def locate(self, source: str, epoch: int, seq: int) -> dict[str, Plain] | None:
        """Return where one event is (topology.base.location), in less than O(sources).

        None means that the operator does not know this source, or does not track single events.
        NO_EPOCH means the current epoch.
        """
        return None

    def counts_of(self, source: str) -> Figures:
        """Return the counts of one source's events by outcome, in less than O(sources).

        The counts start at the source's first event. They are empty if the source is unknown. A
        chain returns the counts of its first operator that has any, so later operators use
        `explain` instead.
        """
        return {}
