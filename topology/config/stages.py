"""Divides the chain of operators into stages.

A stage reads one topic, runs its operators one after another without a topic between them, and
writes one topic. A valid list of stages names the operators of `CHAIN` in their order, each at most
once, and all that are needed. It may divide the chain between any two operators. Stages after
`merge` that only look at events may be in any order. The name of a stage consists of the names of
its operators, joined by `+`. Only stages with `reorder` or `merge` write events. So any other
operator that emits events must share a stage with the nearest of these two.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from pydantic import ValidationInfo

from topology.spelling.problem import Fault, format_value, make_refusal, make_refusal_at, suggest
from topology.spelling.values import is_from_file

REORDER: Final = "reorder"
MERGE: Final = "merge"
WINDOW: Final = "window"
PATTERN: Final = "pattern"
JOIN: Final = "join"
DETECTOR: Final = "detector"


class Link(NamedTuple):
    """An operator of the chain.

    Attributes:
        name: The name of the operator.
        is_needed: Whether every topology has it.
        topic: The key of the topic for its results, if it evaluates queries and emits no events;
            otherwise "".
        is_rare: Whether it is a stage by default only if there is a query of its kind.

    An operator that is neither needed nor rare, and has no topic, runs only in stages that name it.
    """

    name: str
    is_needed: bool = False
    topic: str = ""
    is_rare: bool = False

    @property
    def evaluates_queries(self) -> bool:
        """Whether the operator evaluates queries and emits no events."""
        return bool(self.topic)


CHAIN = (
    Link(REORDER, is_needed=True),
    Link(MERGE, is_needed=True),
    Link(WINDOW, topic="windows"),
    Link(PATTERN, topic="matches"),
    Link(JOIN, topic="joins"),
    Link(DETECTOR, topic="matches", is_rare=True),
)
"""All operators that a stage can name, in order. `topology.stage.registry` creates them."""

_EXAMPLE: Final = "write [reorder, merge] or, without a topic in between, [reorder+merge]"


ALL: Final = "all"
"""The name of the stage that runs if the file names none, whatever queries it has."""


class StageConfig(NamedTuple):
    """A stage: its operators, in order, and whether it runs because the file names none."""

    operators: tuple[str, ...]
    is_default: bool = False

    @property
    def name(self) -> str:
        """The name of the stage, as for the option `--stage`: its operators, joined by `+`.

        The default stage has a constant name, so its group and its state do not change when the
        first query of a kind is added.
        """
        return ALL if self.is_default else "+".join(self.operators)


def list_operators() -> list[str]:
    return [link.name for link in CHAIN]


def operators_named(stage: str) -> list[str]:
    """Return the operators that a stage of this name can have, in order."""
    if stage == ALL:
        return [link.name for link in CHAIN if not link.is_rare]
    return stage.split("+")


def link_of(operator: str) -> Link:
    """Return the link of this operator in the chain; raise StopIteration if there is none."""
    return next(link for link in CHAIN if link.name == operator)


def emits_no_events(operator: str) -> bool:
    """Return whether the operator emits no events, and holds only events that MERGE has emitted."""
    return any(link.name == operator and link.evaluates_queries for link in CHAIN)


def usual_operators() -> tuple[str, ...]:
    """Return the operators that run by default: the needed ones, and those of usual queries."""
    usual = {
        link.name
        for link in CHAIN
        if link.is_needed or (link.evaluates_queries and not link.is_rare)
    }
    return tuple(name for name in list_operators() if name in usual)


def read_stages(value: Any, info: ValidationInfo) -> tuple[StageConfig, ...]:
    """Return the stages in a list of names.

    `all` stands for the stage that runs if the file names none. An entry may also be a stage: a
    `StageConfig` in code, and its fields as a list in a JSON dump.
    """
    if not isinstance(value, list | tuple):
        raise make_refusal(f"{format_value(value)} is not a list of stages", _EXAMPLE)
    stages: list[StageConfig] = []
    faults: list[Fault] = []
    for at, entry in enumerate(value):
        match entry:
            case [[*named], bool(is_default)] if isinstance(entry, tuple) or not is_from_file(info):
                pass
            case str(text):
                is_default = text.strip() == ALL
                named = [*usual_operators()] if is_default else [p.strip() for p in text.split("+")]
            case _:
                message = f"{format_value(entry)} is not the name of a stage"
                faults.append(Fault((at,), message, _EXAMPLE))
                continue
        stages.append(StageConfig(tuple(named), is_default))
        faults += (
            Fault(
                (at,),
                f"{format_value(name)} is not an operator",
                suggest(name, [*list_operators(), ALL]),
            )
            for name in named
            if name not in list_operators()
        )
    if found := faults or _stage_faults(stages):
        raise make_refusal_at(*found)
    return tuple(stages)


def _stage_faults(stages: list[StageConfig]) -> list[Fault]:
    if any(stage.is_default for stage in stages):
        return [*_companion_faults([stage.name for stage in stages])]
    faults = []
    chain = list_operators()
    named: set[str] = set()
    furthest = writing = -1
    for at, stage in enumerate(stages):
        before = writing  # Stages that only look at events may be in any order.
        for operator in stage.operators:
            place = chain.index(operator)
            is_asked = link_of(operator).evaluates_queries
            last = before if is_asked else furthest
            if operator in named:
                faults.append(Fault((at,), f"`{operator}` appears here twice", "name it once"))
            elif place < last:
                message = f"`{operator}` comes after `{chain[last]}`"
                faults.append(Fault((at,), message, f"keep the order {', '.join(chain)}"))
            named.add(operator)
            before, furthest = max(before, place), max(furthest, place)
            if not is_asked:
                writing = max(writing, place)
    faults += (
        Fault((), f"`{link.name}` is missing", _EXAMPLE)
        for link in CHAIN
        if link.is_needed and link.name not in named
    )
    return faults or [
        fault for at, stage in enumerate(stages) for fault in _unwritten_faults(at, stage)
    ]


def _companion_faults(names: list[str]) -> Iterator[Fault]:
    """Yield a fault if another stage than that of detectors is beside `all`."""
    if names not in ([ALL], [ALL, DETECTOR]):
        message = f"`{ALL}` has all operators, so only `{DETECTOR}` can follow it"
        remedy = f"write [{ALL}] alone, or name each stage: [reorder+merge, window]"
        yield Fault((), message, remedy)


def _unwritten_faults(at: int, stage: StageConfig) -> Iterator[Fault]:
    """Yield a fault for each operator that emits events in a stage that does not write them."""
    chain = list_operators()
    for operator in stage.operators:
        is_behind = chain.index(operator) > chain.index(MERGE)
        writes = {MERGE} if is_behind else {REORDER, MERGE}
        if not link_of(operator).evaluates_queries and not writes & set(stage.operators):
            message = f"`{operator}` emits events, but `{stage.name}` does not write them"
            remedy = f"join them: merge+{operator}" if is_behind else f"write {operator}+merge"
            yield Fault((at,), message, remedy)
