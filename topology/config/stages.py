"""Where the chain is cut into stages.

A stage reads one topic, runs its operators one after the other without a topic
between, and writes one topic. A valid cut, read from left to right, names the
operators of the chain `reorder, merge, window, pattern, join` in this order, each at
most once, `reorder` and `merge` always; a cut may lie between any two. `+` joins
operators into one stage, and this spelling is the stage's name.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pydantic import ValidationInfo

from topology.config.problem import Fault, meant, refused, refused_at, shown

REORDER: Final = "reorder"
MERGE: Final = "merge"
WINDOW: Final = "window"
PATTERN: Final = "pattern"
JOIN: Final = "join"
OPERATORS: Final = (REORDER, MERGE, WINDOW, PATTERN, JOIN)
NEEDED: Final = (REORDER, MERGE)

_EXAMPLE: Final = "write [reorder, merge] or, without a topic between, [reorder+merge]"


class Stage(NamedTuple):
    """`name` is what `--stage` takes: the operators joined by `+`."""

    name: str
    operators: tuple[str, ...]


DEFAULT_STAGES: Final = tuple(Stage(each, (each,)) for each in OPERATORS)


def read_stages(value: Any, _: ValidationInfo) -> tuple[Stage, ...]:
    if isinstance(value, tuple) and all(isinstance(each, Stage) for each in value):
        value = [each.name for each in value]
    if not isinstance(value, list | tuple):
        raise refused(f"{shown(value)} is not a list of stages", _EXAMPLE)
    faults: list[Fault] = []
    stages = [_stage(at, entry, faults) for at, entry in enumerate(value)]
    if not faults:
        faults.extend(_cut_faults(stages))
    if faults:
        raise refused_at(*faults)
    return tuple(stages)


def _stage(at: int, entry: Any, faults: list[Fault]) -> Stage:
    if not isinstance(entry, str):
        faults.append(Fault((at,), f"{shown(entry)} is not the name of a stage", _EXAMPLE))
        return Stage("", ())
    operators = tuple(part.strip() for part in entry.split("+"))
    for operator in operators:
        if operator not in OPERATORS:
            message = f"{shown(operator)} is not an operator"
            faults.append(Fault((at,), message, meant(operator, OPERATORS)))
    return Stage("+".join(operators), operators)


def _cut_faults(stages: list[Stage]) -> list[Fault]:
    faults = []
    furthest = -1
    for at, stage in enumerate(stages):
        for operator in stage.operators:
            place = OPERATORS.index(operator)
            if place == furthest:
                faults.append(Fault((at,), f"`{operator}` stands here twice", "name it once"))
            elif place < furthest:
                message = f"`{operator}` stands after `{OPERATORS[furthest]}`"
                faults.append(Fault((at,), message, f"keep the order {', '.join(OPERATORS)}"))
            furthest = max(furthest, place)
    named = {operator for stage in stages for operator in stage.operators}
    faults.extend(
        Fault((), f"`{operator}` is missing", _EXAMPLE)
        for operator in NEEDED
        if operator not in named
    )
    return faults
