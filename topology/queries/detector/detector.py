"""Defines how to write a detector: plain Python that reads events in order, as if none were late.

The functions file of the topology lists the detectors (docs/guides/detectors.md):

    detectors = {"stops": Detector(step, initial=..., deadline=..., tick=...), "tops": Tops}

* A *pure* detector is a function `step(state, event) -> (state, results)`. It changes none of its
  arguments. Its state is a value, so keeping the state is enough for a rollback. Prefer this form.
* A *class* has `on_event(event)`, and optionally `deadline()`, `on_time(time_ns)` and `on_end()`.
  Its attributes are values, which it may change. One object is made for each key, without
  arguments.

A result is a mapping of names to plain values, or a `Found`. A call returns one result, several
results, or None. Timers are in event time. `deadline` returns the time at which the detector is
called even if no event arrives.

The same events must always give the same results. So a detector must not depend on clocks, random
numbers, I/O, globals that change, or the order of a set. The test kit finds most violations
(`inorder.testing`).

Results and faults depend on the state and the item alone:

* A detector that raises emits nothing at that item (`failed`). The state of a pure detector stays
  as it was before the item. The state of a class stays as it was when the class raised.
* The results of an item beyond `MAX_RESULTS` or `MAX_RESULTS_BYTES` are left out
  (`too_many_results`).
* A key is *stopped* (`stopped`) at `MAX_TICKS` timers between two events, or if a timer or a
  deadline raises. So is a key whose state has more than `MAX_SIZE` values, contains something that
  is not a value (`values`), or cannot be read back. A stopped key keeps no state and emits nothing
  any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from topology.base.operator import Plain
from topology.queries.detector.item import Seen
from topology.queries.detector.values import NotAValue, classes_in, deep_copy, pack, size_of, unpack

MAX_RESULTS: Final = 1_000
"""The maximum number of results of one item."""
MAX_RESULTS_BYTES: Final = 1 << 20
"""The maximum total size of one item's results, in bytes (`size_of_output`)."""
MAX_TICKS: Final = 100_000
"""The number of timers between two events at which a key is stopped."""
MAX_SIZE: Final = 100_000
"""The maximum number of values in a key's state.

A long text, bytes or integer counts as one more value for each 64 bytes.
"""


@dataclass(frozen=True, slots=True)
class Found:
    """A result of a detector.

    Attributes:
        values: The values of the result, by name.
        id: A text or number that identifies the result. A later result with the same id
            replaces it. Without an id each result is separate.
        last: Whether the result will not change again. By default that is so only without an id.
        start_ns: The time at which the result begins; by default that of the event.
        events: The events that make up the result, by name.
    """

    values: Mapping[str, Any]
    id: str | int | None = None
    last: bool | None = None
    start_ns: int | None = None
    events: Mapping[str, Seen] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Emitted:
    """A result emitted at an item after a late event; `correct` may change or remove it.

    `correct` returns the result unchanged, or a copy with other values (`with_values`), or None in
    its place to remove it.
    """

    time_ns: int
    values: Mapping[str, Any]
    place: int = 0

    def with_values(self, values: Mapping[str, Any]) -> Emitted:
        return Emitted(self.time_ns, values, self.place)


@dataclass(frozen=True, slots=True)
class Detector:
    """A pure detector: a step function, the initial state, and optional functions.

    Attributes:
        step: `step(state, event)` returns the new state and the results.
        initial: The state of a key before its first event.
        deadline: `deadline(state)` returns the time of the next timer, or None.
        tick: `tick(state, time_ns)` runs at a timer, and returns the same as `step`.
        end: `end(state)` returns the results at the end of a bounded input.
        types: The types of events that the detector reads; empty means all.
        classes: The classes of objects in its state that `initial` does not contain.
        correct: `correct(state, event, emitted)` processes a late event without a replay (`mend`).
            `state` is the newest state, and `emitted` lists the results after the event. The
            function returns the new state, the results at the event, and the changed list, or None
            to ask for a replay.
    """

    step: Callable[[Any, Any], Any]
    initial: Any = None
    deadline: Callable[[Any], int | None] | None = None
    tick: Callable[[Any, int], Any] | None = None
    end: Callable[[Any], Any] | None = None
    types: Sequence[str] = ()
    classes: Sequence[type] = ()
    correct: Callable[[Any, Any, list[Emitted]], Any] | None = None


class Stopped:
    """The state of a stopped key, with the reason. No value of a user is of this class."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why


STOPPED: Final = "stopped"
"""The tag of a stopped state in the stored form."""


class Behaviour:
    """The functions of a detector, in one form for pure detectors and classes.

    `make` creates the state of a detector that is a class. `is_cheap` means that copying a state
    costs nothing and cannot fail.
    """

    def __init__(self, detector: Detector, make: Callable[[], Any] | None = None) -> None:
        self._detector = detector
        self._make = make
        self.types = frozenset(detector.types)
        self.classes = {each.__name__: each for each in detector.classes}
        self.classes |= classes_in(detector.initial)
        self.is_cheap = make is None
        self.has_end = detector.end is not None
        self.corrects = detector.correct is not None
        self.deadline: Callable[..., Any] = detector.deadline or _do_nothing
        self.end: Callable[..., Any] = detector.end or _do_nothing
        self.correct: Callable[..., Any] = detector.correct or _do_nothing

    def initial(self) -> Any:
        return self._detector.initial if self._make is None else self._make()

    def step(self, state: Any, event: Seen) -> tuple[Any, Any]:
        return _check_pair(self._detector.step(state, event))

    def tick(self, state: Any, time_ns: int) -> tuple[Any, Any]:
        tick = self._detector.tick
        return (state, ()) if tick is None else _check_pair(tick(state, time_ns))

    def copy_of(self, state: Any) -> Any:
        """Return a copy that later steps do not change, or `Stopped` if copying fails."""
        if self.is_cheap or isinstance(state, Stopped):
            return state
        try:
            return deep_copy(state)
        except NotAValue as wrong:
            return Stopped(f"its state cannot be stored: {wrong}")
        except Exception as wrong:  # noqa: BLE001 - a user's class may raise anything
            return Stopped(f"its state cannot be copied: {type(wrong).__name__}: {wrong}")

    def pack(self, state: Any) -> Plain:
        """Return the stored form of a state.

        NotAValue is raised if part of the state is not a value.
        """
        if isinstance(state, Stopped):
            return [STOPPED, state.why]
        return pack(state, self.classes)

    def unpack(self, plain: Plain) -> Any:
        """Return a state from its stored form.

        Return `Stopped` if the stored form cannot be read any more, for example because a class is
        missing or has changed.
        """
        if isinstance(plain, list | tuple) and plain[0] == STOPPED:
            return Stopped(plain[1])
        try:
            return unpack(plain, self.classes)
        except Exception as wrong:  # noqa: BLE001 - a user's class may raise anything
            return Stopped(f"its state cannot be read back: {type(wrong).__name__}: {wrong}")


def _do_nothing(*_: Any) -> None:
    """Do nothing: the default of the optional functions."""


def _check_pair(said: Any) -> tuple[Any, Any]:
    if type(said) is not tuple or len(said) != 2:
        raise TypeError("it did not return a pair; return (state, results)")
    return said


def _detector_from_class(kind: Any) -> Detector:
    """Return a detector that calls the methods of the class `kind`; its state is the object."""
    has = frozenset(dir(kind))
    return Detector(
        step=lambda state, event: (state, results_of(state.on_event(event))),
        deadline=(lambda state: state.deadline()) if "deadline" in has else None,
        tick=lambda state, time_ns: (state, results_of(state.on_time(time_ns))),
        end=(lambda state: results_of(state.on_end())) if "on_end" in has else None,
        types=kind.types if "types" in has else (),
        classes=(kind, *(kind.classes if "classes" in has else ())),
    )


def results_of(said: Any) -> list[Any]:
    """Return the results of a call as a list; a generator is run.

    The list has at most `MAX_RESULTS` + 1 results. The extra one shows that there are too many.
    """
    if said is None:
        return []
    if isinstance(said, Found | Mapping):
        return [said]
    if not isinstance(said, Iterable) or isinstance(said, str | bytes):
        raise TypeError(f"it returned a {type(said).__name__}; return mappings or Found")
    return list(islice(said, MAX_RESULTS + 1))


def behaviour_of(given: Any) -> Behaviour:
    """Check a detector of a functions file, and return its behaviour.

    TypeError is raised, with the remedy, if `given` is not a valid detector.
    """
    if isinstance(given, Detector):
        if not callable(given.step):
            raise TypeError("its step cannot be called; write Detector(step)")
        if given.deadline is not None and given.tick is None:
            raise TypeError("it has a deadline but no tick; write Detector(step, tick=...)")
        if given.correct is not None and given.deadline is not None:
            raise TypeError("`correct` cannot be used with timers; leave one of them out")
        if isinstance(given.types, str):
            raise TypeError("its types are a single text; write a list of texts")
        return _check(Behaviour(given))
    if isinstance(given, type) and "on_event" in dir(given):
        if "deadline" in dir(given) and "on_time" not in dir(given):
            raise TypeError("it has `deadline` but no `on_time`; write on_time(self, time_ns)")
        return _check(Behaviour(_detector_from_class(given), given))
    raise TypeError("it is neither a Detector nor a class with on_event; write Detector(step)")


def _check(behaviour: Behaviour) -> Behaviour:
    """Return the behaviour after checking that its initial state can be stored and copied."""
    try:
        state = behaviour.initial()
        kept = [behaviour.unpack(behaviour.pack(state)), behaviour.copy_of(state)]
    except NotAValue as wrong:
        raise TypeError(f"its initial state cannot be stored: {wrong}") from wrong
    except Exception as wrong:
        raise TypeError(f"its initial state fails with {type(wrong).__name__}: {wrong}") from wrong
    for each in kept:
        if isinstance(each, Stopped):
            raise TypeError(f"its initial state is invalid: {each.why}")
    if size_of(state, MAX_SIZE) > MAX_SIZE:
        raise TypeError(f"its initial state has more than {MAX_SIZE:,} values")
    return behaviour
