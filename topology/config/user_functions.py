"""Checks the user's functions (`topology.base.user_functions`) before anything runs.

The checks are the same for functions from a file, from `Topology.with_functions` and from `parse`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from topology.base.user_functions import NAME, BadFunctions, UserFunctions
from topology.spelling.problem import Problem, TopologyError

if TYPE_CHECKING:
    from topology.queries.window.aggregates.custom import Function

KINDS: Final = ("aggregates", "functions", "detectors")

Wrong = tuple[str, str]
"""The description of a fault, and its remedy."""


def make_user_functions(
    functions: Mapping[str, Callable[..., Any]] | None,
    aggregates: Mapping[str, Function] | None,
    detectors: Mapping[str, Any] | None = None,
) -> UserFunctions:
    """Return the functions given in code; raise TopologyError if one is invalid."""
    given = UserFunctions(aggregates or {}, functions or {}, detectors or {})
    if wrong := list(faults(given)):
        raise TopologyError([Problem("functions", message, remedy) for message, remedy in wrong])
    return given


def faults(brought: UserFunctions) -> Iterator[Wrong]:
    """Yield the faults of a user's functions.

    `init` of each aggregate is called once, and so is the function for the first state of each
    detector.
    """
    from topology.queries.detector.detector import behaviour_of
    from topology.queries.pattern.compile.values import FUNCTIONS
    from topology.queries.window.aggregates.built_in import BUILT_IN
    from topology.queries.window.aggregates.custom import Function

    given: dict[str, Any] = brought._asdict()  # Users may pass any values.
    unfit = [kind for kind, found in given.items() if not isinstance(found, Mapping)]
    for kind in unfit:
        yield f"`{kind}` is not a mapping", f"write {kind} = {{'name': ...}}"
    if unfit:
        return
    for name, aggregate in given["aggregates"].items():
        yield from name_faults(name, BUILT_IN)
        if isinstance(aggregate, Function):
            yield from _aggregate_faults(name, aggregate)
        else:
            remedy = "write Function(init, add, combine, value)"
            yield f"the aggregate {name!r} is not an inorder.engine.Function", remedy
    for name, function in given["functions"].items():
        yield from name_faults(name, FUNCTIONS)
        if not callable(function):
            yield f"{name!r} cannot be called", "map the name to a function or a lambda"
    for name, detector in given["detectors"].items():
        yield from name_faults(name, ())
        try:
            behaviour_of(detector)
        except TypeError as wrong:
            yield f"the detector {name!r}: {wrong}", "see docs/guides/detectors.md"


def missing_file_error(path: object) -> BadFunctions:
    """Return the error for a functions file that does not exist."""
    remedy = "name one by its path relative to the topology file"
    return BadFunctions(f"there is no Python file {path}", remedy)


def require_definitions(path: object, found: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise BadFunctions if a file defines no functions of any kind."""
    if not any(found.values()):
        message = f"{path} defines neither `aggregates` nor `functions` nor `detectors`"
        raise BadFunctions(message, "write functions = {'distance': distance}")


def name_faults(name: Any, taken: Collection[str]) -> Iterator[Wrong]:
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        yield f"{name!r} is not a name", "use letters, digits and _"
    elif name in taken:
        yield f"{name!r} is built in", "choose another name"


def _aggregate_faults(name: str, aggregate: Function) -> Iterator[Wrong]:
    parts = aggregate._asdict()
    for word, part in parts.items():
        if not callable(part):
            yield f"{word} of {name!r} cannot be called", "pass a function or a lambda"
    if callable(aggregate.init):
        try:
            aggregate.init()
        except Exception as wrong:  # noqa: BLE001 - a user's code may raise anything
            text = f"{type(wrong).__name__}: {wrong}"
            yield f"init() of {name!r} fails with {text}", "return the state before the first value"
