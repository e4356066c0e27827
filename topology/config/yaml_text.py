"""Reads YAML text as plain values, with the line of every key.

A key that occurs twice in one mapping is a problem, because YAML would silently use the last one.
There are three bounds: `MAX_CHARS` characters of text, the parser's own depth of nesting, and
`MAX_MERGED` keys added by merge keys (`<<`). Aliases are shared values that are visited once, so
they cannot expand to more than the text.

Digits with colons, such as `12:30:45`, are text here. In YAML 1.1 they are a number in base 60,
which nobody intends, and reading them takes time quadratic in their length.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import yaml

from topology.spelling.problem import Path, Problem, format_key_path, format_value

MAX_CHARS: Final = 1_000_000
MAX_MERGED: Final = 10_000

_TEXT: Final = "tag:yaml.org,2002:str"
_NUMBERS: Final = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})

# PyYAML raises these errors for a scalar that does not fit its tag (`!!int x`, a date in month 13,
# an integer of 5,000 digits).
_BAD_SCALAR: Final = (ValueError, LookupError, AttributeError, TypeError, ArithmeticError)


class Loaded(NamedTuple):
    value: Any
    lines: dict[Path, int]
    problems: list[Problem]


class _Loader(yaml.SafeLoader):
    """A safe loader with the module's bounds, which reports the line of an unreadable scalar."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._merged = 0

    def resolve(self, kind: type[yaml.Node], value: str, implicit: Any) -> str:
        tag = str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]
        return _TEXT if tag in _NUMBERS and ":" in value else tag

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        keys = len(node.value)
        super().flatten_mapping(node)
        self._merged += max(len(node.value) - keys, 0)
        if self._merged > MAX_MERGED:
            problem = f"merge keys add more than {MAX_MERGED} keys"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            if node.tag in _NUMBERS and ":" in node.value:
                raise ValueError("digits with colons are not a number")
            return super().construct_object(node, deep=deep)
        except _BAD_SCALAR as wrong:
            problem = f"this value cannot be read ({wrong})"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None


def load(text: str) -> Loaded:
    """Return the document in `text`. If the text is not one YAML document, report a problem."""
    if len(text) > MAX_CHARS:
        remedy = f"keep it below {MAX_CHARS} characters"
        return _unreadable(f"the text has {len(text)} characters", remedy, None)
    try:
        return _load(text)
    except yaml.MarkedYAMLError as wrong:
        mark = wrong.problem_mark or wrong.context_mark
        place = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        message = f"not YAML: {wrong.problem or wrong.context}{place}"
        return _unreadable(message, "correct the YAML there", mark.line + 1 if mark else None)
    except yaml.YAMLError as wrong:
        return _unreadable(f"not YAML: {' '.join(str(wrong).split())}", "write plain text", None)
    except RecursionError:
        return _unreadable("the YAML is nested too deeply", "use fewer levels", None)


def _unreadable(message: str, remedy: str, line: int | None) -> Loaded:
    return Loaded(None, {}, [Problem("", message, remedy, line)])


def _load(text: str) -> Loaded:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        loaded = Loaded(None, {}, [])
        if node is None:
            return loaded
        # This must come before the construction, which expands merge keys in place.
        _record_lines(node, (), loaded, set())
        return loaded._replace(value=loader.construct_document(node))
    finally:
        loader.dispose()


def _record_lines(node: yaml.Node, path: Path, loaded: Loaded, visited: set[int]) -> None:
    loaded.lines.setdefault(path, node.start_mark.line + 1)
    if id(node) in visited:
        return
    visited.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for at, item in enumerate(node.value):
            _record_lines(item, (*path, at), loaded, visited)
    elif isinstance(node, yaml.MappingNode):
        _record_mapping_lines(node, path, loaded, visited)


def _record_mapping_lines(
    node: yaml.MappingNode, path: Path, loaded: Loaded, visited: set[int]
) -> None:
    first: dict[tuple[str, str], int] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        mark, here = key.start_mark, (*path, key.value)
        identity = (key.tag, key.value)
        if identity in first:
            message = (
                f"{format_value(key.value)} appears here twice (line {mark.line + 1}, "
                f"column {mark.column + 1}; first in line {first[identity]})"
            )
            remedy = "keep one of the two"
            loaded.problems.append(Problem(format_key_path(here), message, remedy, mark.line + 1))
        first.setdefault(identity, mark.line + 1)
        loaded.lines.setdefault(here, mark.line + 1)
        _record_lines(value, here, loaded, visited)
