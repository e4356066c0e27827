"""Reads the definitions in a user's Python file from its syntax tree, without running any of it.

A mapping like `functions` is *written out* if the file names each entry itself:

    functions = {"distance": distance, "double": lambda a: 2 * a}
    functions["half"] = half

The text of an entry consists of its expression and of every definition in the file that it needs.
If the text has changed, a state that was made with the old text is not continued.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from topology.base.user_functions import BadFunctions, Texts
from topology.config.user_functions import name_faults

TRUST: Final = "write {0} = {{'name': ...}}, or let the file be run: inorder check --trust"

_DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_EVERYTHING: Final = "*"
_PROGRAM: Final = ast.dump(ast.parse('__name__ == "__main__"', mode="eval").body)


def read_entries(path: object, tree: ast.Module, name: str) -> dict[str, ast.expr]:
    """Return the entries of the named mapping; raise BadFunctions if it is not written out."""
    entries: dict[str, ast.expr] = {}
    plain: list[ast.AST] = []
    for statement in tree.body:
        target, value = _split_assignment(statement)
        if value is None:
            continue
        if isinstance(target, ast.Name) and target.id == name:
            entries = _read_mapping(path, name, value)
            plain.append(target)
        elif isinstance(target, ast.Subscript) and _is_named(target.value, name):
            entries |= {_check_key(path, name, target.slice): value}
            plain.append(target.value)
    if any(use not in plain for use in _iter_uses(tree, name)):
        raise _unwritten_error(path, name)
    return entries


def texts_of(source: str | bytes, names: Mapping[str, Collection[str]]) -> Texts:
    """Return the source text of each function, by kind and name.

    If the mapping of its kind is not written out, the text of a function is the whole file. `names`
    has the names of the functions by kind.
    """
    text = source if isinstance(source, str) else source.decode()
    needed = _Needed(text)
    return {kind: needed.texts(kind, named) for kind, named in names.items() if named}


class _Needed:
    """A finder of the definitions that a part of a file needs.

    `_binding` has, for each name, the positions of the statements that bind or change it.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._tree = tree = ast.parse(source)
        self._binding: dict[str, list[int]] = {}
        for at, statement in enumerate(tree.body):
            for name in _iter_bound(statement):
                self._binding.setdefault(name, []).append(at)

    def texts(self, kind: str, names: Collection[str]) -> dict[str, str]:
        try:
            entries = read_entries("", self._tree, kind)
        except BadFunctions:
            entries = {}
        return {name: self._text(entries.get(name, self._tree)) for name in names}

    def _text(self, root: ast.AST) -> str:
        if root is self._tree:
            return self._source
        places: set[int] = set()
        waiting = [_EVERYTHING, *_iter_mentioned(root)]
        while waiting:
            for at in self._binding.get(waiting.pop(), ()):
                if at not in places:
                    places.add(at)
                    waiting += _iter_mentioned(self._tree.body[at])
        parts = [root, *(self._tree.body[at] for at in sorted(places))]
        return "\n".join(self._write(part) for part in parts)

    def _write(self, part: ast.AST) -> str:
        """Return the source lines of a part of the file, with its decorators."""
        assert isinstance(part, ast.expr | ast.stmt)
        decorators = part.decorator_list if isinstance(part, _DEFINITIONS) else []
        first = min([part.lineno, *(each.lineno for each in decorators)])
        return "\n".join(self._source.splitlines()[first - 1 : part.end_lineno])


def _iter_mentioned(part: ast.AST) -> Iterator[str]:
    return (each.id for each in ast.walk(part) if isinstance(each, ast.Name))


def _iter_bound(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of the file binds, or whose values it may change."""
    if isinstance(statement, _DEFINITIONS):
        yield statement.name
        return
    if isinstance(statement, ast.If) and ast.dump(statement.test) == _PROGRAM:
        return  # The file is imported, and never run as a program.
    for each in ast.walk(statement):
        if isinstance(each, _DEFINITIONS):
            yield each.name
        elif isinstance(each, ast.alias):
            yield (each.asname or each.name).partition(".")[0]
        elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store | ast.Del):
            yield each.id
        elif isinstance(each, ast.Subscript | ast.Attribute) and not isinstance(each.ctx, ast.Load):
            yield from _iter_mentioned(each.value)
        elif isinstance(each, ast.Expr):
            yield from _iter_mentioned(each)  # A call may change its arguments.


def check_name(path: object, name: Any, taken: Collection[str]) -> None:
    """Raise BadFunctions if `name` cannot be the name of a user's function."""
    for message, remedy in name_faults(name, taken):
        raise BadFunctions(f"{path}: {message}", remedy)


def _split_assignment(statement: ast.stmt) -> tuple[ast.expr | None, ast.expr | None]:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return statement.targets[0], statement.value
    if isinstance(statement, ast.AnnAssign):
        return statement.target, statement.value
    return None, None


def _iter_uses(tree: ast.Module, name: str) -> Iterator[ast.AST]:
    """Yield all nodes that bind the name or may change its value."""
    for each in ast.walk(tree):
        imported = isinstance(each, ast.alias) and (each.asname or each.name) in (name, "*")
        defined = isinstance(each, ast.FunctionDef | ast.ClassDef) and each.name == name
        if imported or defined or _is_named(each, name):
            yield each


def _is_named(each: ast.AST, name: str) -> bool:
    return isinstance(each, ast.Name) and each.id == name


def _read_mapping(path: object, name: str, value: ast.expr) -> dict[str, ast.expr]:
    if isinstance(value, ast.Dict):
        keys = [_check_key(path, name, key) for key in value.keys]
        return dict(zip(keys, value.values, strict=True))
    if isinstance(value, ast.Constant | ast.List | ast.Tuple | ast.Set):
        raise BadFunctions(f"{path}: `{name}` is not a mapping", f"write {name} = {{'name': ...}}")
    if isinstance(value, ast.Call) and _is_named(value.func, "dict") and not value.args:
        named = {each.arg: each.value for each in value.keywords if each.arg is not None}
        if len(named) == len(value.keywords):
            return named
    raise _unwritten_error(path, name)


def _check_key(path: object, name: str, key: ast.expr | None) -> str:
    if isinstance(key, ast.Constant):
        check_name(path, key.value, ())
        return str(key.value)
    raise _unwritten_error(path, name)


def _unwritten_error(path: object, name: str) -> BadFunctions:
    return BadFunctions(
        f"{path}: `{name}` is not written out, so only running the file shows its names",
        TRUST.format(name),
    )
