"""Turns text or a mapping into a `Topology`, or raises an error with all problems at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from itertools import takewhile
from typing import Any, Final, get_args, get_origin

from pydantic import ValidationError

from topology.base.user_functions import NOTHING, BadFunctions, Bring, UserFunctions
from topology.config.query import KINDS, NO_KEY
from topology.config.topology import Topology
from topology.queries.join.settings import SIDES
from topology.spelling.problem import (
    Fault,
    Path,
    Problem,
    TopologyError,
    find_nearest,
    format_key_path,
    format_value,
    suggest,
)
from topology.spelling.section import Section
from topology.spelling.values import FromFile

OWN: Final = "functions"


def _sections_in_type(annotation: Any) -> Iterator[tuple[Path, type[Section]]]:
    """Yield the sections in the type of a field, with the path to each.

    `*` in a path stands for a name that the user chooses.
    """
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield (), annotation
    elif get_origin(annotation) is Mapping:
        for path, section in _sections_in_type(get_args(annotation)[1]):
            yield ("*", *path), section
    else:
        for part in get_args(annotation):
            yield from _sections_in_type(part)


def _iter_sections(path: Path, section: type[Section]) -> Iterator[tuple[Path, type[Section]]]:
    """Yield the section and all sections below it, with their paths.

    Sections whose name the user chooses come last.
    """
    yield path, section
    below = [
        ((*path, key, *inner), found)
        for key, (_, field) in section.list_keys().items()
        for inner, found in _sections_in_type(field.annotation)
    ]
    below.sort(key=lambda each: each[0][-1] == "*")
    for inner, found in below:
        yield from _iter_sections(inner, found)


_FOUND: Final = [*_iter_sections((), Topology)]
SECTIONS: Final[Mapping[Path, tuple[type[Section], ...]]] = {
    path: tuple(dict.fromkeys(each for at, each in _FOUND if at == path)) for path, _ in _FOUND
}
"""The section at each path, or one for each kind of query; `*` is a name that the user chooses."""

QUERY: Final = ("queries", "*")
"""The path of a query. Below it, pydantic adds the kind to the path of an error."""


def parse(source: str | bytes | Mapping[str, Any], bring: Bring | None = None) -> Topology:
    """Return the topology in `source`: YAML text, or the mapping that it represents.

    `bring` loads the functions file that the topology names (`topology.base.user_functions`).

    `TopologyError` is raised with all problems found, in the order of the file.
    """
    return _parse(source, lambda path: (bring or _refuse_file)(path) if path else NOTHING)


def parse_with(source: str | bytes | Mapping[str, Any], own: UserFunctions) -> Topology:
    """Return the topology as `parse` does, with the functions `own` instead of those of a file."""
    return _parse(source, lambda _: own)


def _refuse_file(_: str) -> UserFunctions:
    remedy = "pass the functions themselves: parse(text, functions={...}, aggregates={...})"
    raise BadFunctions("a file of functions cannot be run here", remedy)


def _parse(source: str | bytes | Mapping[str, Any], bring: Bring) -> Topology:
    if isinstance(source, Mapping):
        return _validate(source, {}, [], bring)
    from topology.config.yaml_text import load  # A topology given as a mapping needs no YAML.

    try:
        loaded = load(source.decode() if isinstance(source, bytes) else source)
    except UnicodeDecodeError as wrong:
        message = f"not UTF-8 text: byte {wrong.start} is {wrong.object[wrong.start]:#04x}"
        raise TopologyError([Problem("", message, "save it as UTF-8", None)]) from None
    if loaded.value is None:
        raise TopologyError(loaded.problems or [_EMPTY])
    return _validate(loaded.value, loaded.lines, loaded.problems, bring)


REQUIRED: Final = {
    "streams": "at least streams: {default: {}}",
    "aggregate": "aggregate: {n: count()}",
    "sides": SIDES,
}
"""An example of each key that a section must have."""

_EMPTY: Final = Problem("", "the file is empty", f"write {REQUIRED['streams']}", 1)


def _validate(
    value: Any, lines: Mapping[Path, int], problems: list[Problem], bring: Bring
) -> Topology:
    wanted = value.get(OWN) if isinstance(value, Mapping) else None
    try:
        own = bring(wanted if isinstance(wanted, str) else "")
    except BadFunctions as refusal:
        fault = Fault((OWN,), str(refusal), refusal.remedy)
        raise TopologyError([*problems, _problem_of(fault, lines)]) from None
    try:
        context = FromFile(own)
        topology = Topology.model_validate(value, context=context, by_alias=True, by_name=False)
    except ValidationError as wrong:
        faults = [fault for error in wrong.errors() for fault in _faults_in(error)]
        problems = problems + [_problem_of(fault, lines) for fault in faults]
        problems.sort(key=lambda problem: problem.line or 0)
    if problems:
        raise TopologyError(problems)
    return topology


def _problem_of(fault: Fault, lines: Mapping[Path, int]) -> Problem:
    known = (fault.path[:size] for size in range(len(fault.path), -1, -1))
    line = next((lines[path] for path in known if path in lines), None)
    return Problem(format_key_path(fault.path), fault.message, fault.remedy, line)


def _faults_in(error: Any) -> Iterator[Fault]:
    """Yield the faults in one of pydantic's errors."""
    path: Path = error["loc"]
    if path[-1:] == ("[key]",):  # Pydantic appends this to the path of an invalid name.
        path = path[:-1]
    size, kind = len(QUERY), ""
    if _wildcard_path(path[:size]) == QUERY and len(path) > size:
        path, kind = (*path[:size], *path[size + 1 :]), str(path[size])
    match error["type"]:
        case "refused":
            for fault in error["ctx"]["faults"]:
                yield fault._replace(path=(*path, *fault.path))
        case "extra_forbidden":
            of_query = kind if len(path) == size + 1 else ""
            yield _unknown_key(path, error["input"], of_query)
        case "invalid_key":
            yield Fault(path, f"the key {format_value(path[-1])} is not text", "write it in quotes")
        case "missing":
            yield Fault(path, "is missing", f"add it; write {REQUIRED[str(path[-1])]}")
        case "model_type" | "dict_type" | "mapping_type":
            message = f"{format_value(error['input'])} is not a mapping"
            keys = ", ".join(_keys_of(path))
            yield Fault(path, message, f"write keys with values, known: {keys}")
        case _:
            yield Fault(path, error["msg"], f"correct {format_value(error['input'])}")


def _unknown_key(path: Path, value: Any, kind: str) -> Fault:
    """Return the fault of a key that its section does not have; `kind` is that of a query."""
    owners = [each for each, of in KINDS.items() if kind and path[-1] in of.list_keys()]
    if owners:
        is_own = f"belongs to a {owners[0]}, not to a {kind}"
        message = is_own if len(owners) == 1 else f"has no effect on a {kind}"
        return Fault(path, message, "leave it out")
    known = tuple(KINDS[kind].list_keys()) if kind else _keys_of(path[:-1])
    return Fault(path, NO_KEY, _place(path, value, known))


def _place(path: Path, value: Any, known: tuple[str, ...]) -> str:
    """Return the remedy for a key that its section does not have, with the keys in `known`.

    It names the nearest sections that have the key. If there are none, it suggests a similar key of
    this section, or of one that is a level up or down.
    """
    here, key = path[:-1], path[-1]
    others = _keys_elsewhere(here, value)
    homes = [home for home, keys in others.items() if key in keys]
    if homes and here and all(home and home[0] != here[0] for home in homes):
        close = get_close_matches(str(key), known, n=2)
        if close:  # A typo is more likely than a key of a distant section.
            likely = " or ".join(f"`{each}`" for each in sorted(close, key=len))
            return f"did you mean {likely}? {format_value(key)} is a key {_format_place(homes[0])}"
    if homes:
        least = min(_distance(here, home) for home in homes)
        places = [_format_place(home) for home in homes if _distance(here, home) == least]
        return f"write it {' or '.join(places)}"
    if find_nearest(key, known) is None:
        for home, keys in others.items():
            if _distance(here, home) == 1 and (close_by := find_nearest(key, keys)):
                return f"did you mean `{close_by}` {_format_place(home)}?"
    return suggest(key, known)


def _keys_elsewhere(here: Path, value: Any) -> dict[Path, list[str]]:
    """Return the keys of all other sections that may have such a value, by section path.

    Paths have the names of `here` as far as they agree with it. If the value is a mapping, only
    keys of sections are returned, and otherwise only keys of other values.
    """
    found = {}
    for pattern in SECTIONS:
        size = len(pattern)
        home = tuple(
            (here[at] if _wildcard_path(here[: at + 1]) == pattern[: at + 1] else part)
            for at, part in enumerate(pattern)
        )
        below = {path[size] for path in SECTIONS if path[:size] == pattern != path}
        of_sections = isinstance(value, Mapping)
        found[home] = [key for key in _keys_of(pattern) if (key in below) == of_sections]
    found.pop(here, None)
    return found


def _distance(one: Path, other: Path) -> int:
    """Return the number of steps up and down the tree from one section to the other."""
    shared = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    )
    return len(one) + len(other) - 2 * shared


def _format_place(home: Path) -> str:
    spelled_out = format_key_path(tuple("<name>" if part == "*" else part for part in home))
    return f"under {spelled_out}" if home else "at the top of the file"


def _wildcard_path(path: Path) -> Path:
    return tuple("*" if at % 2 and path[0] != "topics" else p for at, p in enumerate(path))


def _keys_of(path: Path) -> tuple[str, ...]:
    """Return the keys of the sections at `path` as written in the file; none for other paths."""
    sections = SECTIONS.get(_wildcard_path(path), ())
    return tuple(dict.fromkeys(key for section in sections for key in section.list_keys()))
