"""A detector of a user's own: plain Python that reads events in order, as if none came late.

In the functions file of the topology (docs/guides/detectors.md):

    detectors = {"stops": Detector(step, initial=..., deadline=..., tick=...), "tops": Tops}

* A *pure* one is a function `step(state, event) -> (state, results)`. It changes nothing that it
  was given: a state is a value, so keeping it is enough to go back to it. Best by far.
* A *class* with `on_event(event)`, and if it likes `deadline()`, `on_time(time_ns)` and `on_end()`.
  Its attributes are values; it may change them. One object is made for each key, without arguments.

Results are mappings of plain values by name, or `Found`; one, several, or None. Timers are in
event time: `deadline` gives when the state wants to be called though nothing comes.

Forbidden, since the same events must always give the same: clocks, dice, I/O, globals that change,
the order of a set. The test kit finds most of that (`inorder.testing`).

Whatever is done is a function of the state and the item alone. So are the ends of a bad one:

* raises: nothing is emitted (`failed`), and the state stays what it was before the item; of a
  class, what it had become when it raised.
* emits without end: what is beyond `MAX_RESULTS` of an item, or `MAX_RESULTS_BYTES`, is left out
  (`too_many_results`).
* fires more than `MAX_TICKS` timers between two events, or raises in one; has a state of more
  than `MAX_SIZE` values, or one that holds what is no value (`values`), or cannot be read back: the
  key is *stopped* (`stopped`), keeps no state and emits nothing any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from topology.detector.item import Seen
from topology.detector.values import (
    NotAValue,
    classes_in,
    copied,
    packed,
    size_of,
    unpacked,
)
from topology.model.operator import Plain

MAX_RESULTS: Final = 1_000
"""Results of one item."""
MAX_RESULTS_BYTES: Final = 1 << 20
"""The results of one item, together (`size_of_output`)."""
MAX_TICKS: Final = 100_000
"""Timers between two events of a key."""
MAX_SIZE: Final = 100_000
"""Values that a key's state consists of; a long text, bytes or integer is one for each 64 bytes."""


@dataclass(frozen=True, slots=True)
class Found:
    """A result. `id`: a text or number by which a detector emits it again, changed; it then marks
    the one that will not change any more as the `last`. Without an id each result is one
    of its own. `start_ns`: where it begins, if not at the event; `events`: which it consists of, by
    name."""

    values: Mapping[str, Any]
    id: str | int | None = None
    last: bool | None = None
    start_ns: int | None = None
    events: Mapping[str, Seen] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Emitted:
    """A result emitted at an item behind a late event, given to `correct`. It returns it as it is,
    or with other values (`with_values`), or None where it is no longer emitted."""

    time_ns: int
    values: Mapping[str, Any]
    place: int = 0

    def with_values(self, values: Mapping[str, Any]) -> Emitted:
        return Emitted(self.time_ns, values, self.place)


@dataclass(frozen=True, slots=True)
class Detector:
    """A pure one. `types`: of events that it looks at; none: all. `classes`: of objects in its
    state, as far as `initial` does not hold them. `correct(state, event, emitted)` takes a late
    event into a state that has read what lies behind it, without a replay (`mend`): it gives
    the state, the results at the event, and `emitted` as it is now; or None, and then there is a
    replay."""

    step: Callable[[Any, Any], Any]
    initial: Any = None
    deadline: Callable[[Any], int | None] | None = None
    tick: Callable[[Any, int], Any] | None = None
    end: Callable[[Any], Any] | None = None
    types: Sequence[str] = ()
    classes: Sequence[type] = ()
    correct: Callable[[Any, Any, list[Emitted]], Any] | None = None


class Stopped:
    """The state of a key that is stopped, and why."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why


STOPPED: Final = "stopped"
"""Its tag when it is written down."""


class Behaviour:
    """What the unit needs of a detector, pure or a class (`make`). `is_cheap`: a copy of its state
    costs nothing, and cannot fail."""

    def __init__(self, detector: Detector, make: Callable[[], Any] | None = None) -> None:
        self._detector = detector
        self._make = make
        self.types = frozenset(detector.types)
        self.classes = {each.__name__: each for each in detector.classes}
        self.classes |= classes_in(detector.initial)
        self.is_cheap = make is None
        self.has_end = detector.end is not None
        self.corrects = detector.correct is not None
        self.deadline: Callable[..., Any] = detector.deadline or _nothing
        self.end: Callable[..., Any] = detector.end or _nothing
        self.correct: Callable[..., Any] = detector.correct or _nothing

    def initial(self) -> Any:
        return self._detector.initial if self._make is None else self._make()

    def step(self, state: Any, event: Seen) -> tuple[Any, Any]:
        return _pair(self._detector.step(state, event))

    def tick(self, state: Any, time_ns: int) -> tuple[Any, Any]:
        tick = self._detector.tick
        return (state, ()) if tick is None else _pair(tick(state, time_ns))

    def copy_of(self, state: Any) -> Any:
        """Return a state that no step from the other one changes; `Stopped` where there can be
        none."""
        return state if self.is_cheap else _copy_of(state)

    def pack(self, state: Any) -> Plain:
        """Raises NotAValue."""
        if isinstance(state, Stopped):
            return [STOPPED, state.why]
        return packed(state, self.classes)

    def unpack(self, plain: Plain) -> Any:
        """`Stopped`, too, for what cannot be read any more: a class may be absent, or changed."""
        if isinstance(plain, list | tuple) and plain[0] == STOPPED:
            return Stopped(plain[1])
        try:
            return unpacked(plain, self.classes)
        except Exception as wrong:  # noqa: BLE001 - a user's class may raise anything
            return Stopped(f"its state cannot be read back: {type(wrong).__name__}: {wrong}")


def _nothing(*_: Any) -> None:
    """Do what a detector does that lacks the call."""


def _pair(said: Any) -> tuple[Any, Any]:
    if type(said) is not tuple or len(said) != 2:
        raise TypeError("it gives no pair; return (state, results)")
    return said


def _methods_of(kind: Any) -> Detector:
    """Makes a detector of a user's class: its steps change the object that they are given."""
    has = frozenset(dir(kind))
    return Detector(
        step=lambda state, event: (state, results_of(state.on_event(event))),
        deadline=(lambda state: state.deadline()) if "deadline" in has else None,
        tick=lambda state, time_ns: (state, results_of(state.on_time(time_ns))),
        end=(lambda state: results_of(state.on_end())) if "on_end" in has else None,
        types=kind.types if "types" in has else (),
        classes=(kind, *(kind.classes if "classes" in has else ())),
    )


def _copy_of(state: Any) -> Any:
    if isinstance(state, Stopped):
        return state
    try:
        return copied(state)
    except NotAValue as wrong:
        return Stopped(f"its state cannot be kept: {wrong}")
    except Exception as wrong:  # noqa: BLE001 - a user's class may raise anything
        return Stopped(f"its state cannot be copied: {type(wrong).__name__}: {wrong}")


def results_of(said: Any) -> list[Any]:
    """The results of a call, as a list of at most one more than is allowed; a generator has run."""
    if said is None:
        return []
    if isinstance(said, Found | Mapping):
        return [said]
    if not isinstance(said, Iterable) or isinstance(said, str | bytes):
        raise TypeError(f"it gives a {type(said).__name__}; give mappings, or Found")
    return list(islice(said, MAX_RESULTS + 1))


def behaviour_of(given: Any) -> Behaviour:
    """TypeError, with what to write, for what is no detector."""
    if isinstance(given, Detector):
        return _checked(Behaviour(given), given)
    if isinstance(given, type) and "on_event" in dir(given):
        if "deadline" in dir(given) and "on_time" not in dir(given):
            raise TypeError("it has `deadline` and no `on_time`; write on_time(self, time_ns)")
        return _checked(Behaviour(_methods_of(given), given), given)
    raise TypeError("it is neither a Detector nor a class with on_event; write Detector(step)")


def _checked(behaviour: Behaviour, given: Any) -> Behaviour:
    if isinstance(given, Detector):
        if not callable(given.step):
            raise TypeError("its step cannot be called; write Detector(step)")
        if given.deadline is not None and given.tick is None:
            raise TypeError("it has a deadline and no tick; write Detector(step, tick=...)")
        if given.correct is not None and given.deadline is not None:
            raise TypeError("it has timers, whose order a late event changes; leave `correct` out")
        if isinstance(given.types, str):
            raise TypeError("its types are one text; write a list of them")
    try:
        state = behaviour.initial()
        kept = [behaviour.unpack(behaviour.pack(state)), behaviour.copy_of(state)]
    except NotAValue as wrong:
        raise TypeError(f"its first state cannot be kept: {wrong}") from wrong
    except Exception as wrong:
        raise TypeError(f"its first state fails with {type(wrong).__name__}: {wrong}") from wrong
    for each in kept:
        if isinstance(each, Stopped):
            raise TypeError(f"its first state is no good: {each.why}")
    if size_of(state, MAX_SIZE) > MAX_SIZE:
        raise TypeError(f"its first state is of more than {MAX_SIZE:,} values")
    return behaviour
