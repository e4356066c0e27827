"""Reads the definitions in a user's Python file from its text, without running it.

`inorder check` may get files that others wrote. It needs the names of `aggregates`, `functions` and
`detectors`, and the numbers of the functions' arguments. The text shows both if the mappings are
written out:

    functions = {"distance": distance, "double": lambda a: 2 * a}
    functions["half"] = half

A mapping that is bound in another way (imported, computed, filled by a call) is refused. The
message names `--trust`, which runs the file as a worker would. Only running the file shows that it
imports without a fault, and that its values are right.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from topology.base.user_functions import BadFunctions, UserFunctions
from topology.config.user_functions import KINDS, missing_file_error, require_definitions
from topology.config.written_functions import check_name, read_entries, texts_of
from topology.queries.detector.detector import Detector
from topology.queries.pattern.compile.values import FUNCTIONS
from topology.queries.window.aggregates.built_in import BUILT_IN
from topology.queries.window.aggregates.custom import Function

MAX_BYTES: Final = 1_000_000

Defined = ast.FunctionDef | ast.Lambda


class Unread:
    """A stand-in for a function that was not loaded; it has the signature, if that is known."""

    def __init__(self, defined: Defined | None) -> None:
        if defined is not None:
            self.__signature__ = signature_of(defined)

    def __call__(self, *_: Any) -> Any:
        raise RuntimeError(
            "the functions of this topology were only read, so they cannot be called"
        )


def make_reader(folder: Path) -> Callable[[str], UserFunctions]:
    """Return a function that reads the file at a path relative to `folder`."""
    return lambda path: read(folder / path)


def read(path: Path) -> UserFunctions:
    """Return the definitions in a file.

    Raises `BadFunctions` if the file does not exist, is not Python, or does not write its names
    out.
    """
    text = _text(path)
    tree = _parse_tree(path, text)
    defined = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}
    found = {name: read_entries(path, tree, name) for name in KINDS}
    require_definitions(path, found)
    for name in found["aggregates"]:
        check_name(path, name, BUILT_IN)
    for name, value in found["functions"].items():
        check_name(path, name, FUNCTIONS)
        if isinstance(value, ast.Constant | ast.Dict | ast.List | ast.Tuple):
            remedy = "map the name to a function or a lambda"
            raise BadFunctions(f"{path}: {name!r} cannot be called", remedy)
    for name in found["detectors"]:
        check_name(path, name, ())
    nothing = Unread(None)
    return UserFunctions(
        dict.fromkeys(found["aggregates"], Function(nothing, nothing, nothing)),
        {
            name: Unread(_find_definition(value, defined))
            for name, value in found["functions"].items()
        },
        dict.fromkeys(found["detectors"], Detector(nothing)),
        texts_of(text, found),
    )


def _text(path: Path) -> bytes:
    if not path.is_file():
        raise missing_file_error(path)
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as wrong:
        raise BadFunctions(f"{path} cannot be read ({wrong.strerror})", "name another") from wrong
    if len(text) > MAX_BYTES:
        raise BadFunctions(f"{path} is larger than {MAX_BYTES:,} bytes", "name a smaller file")
    return text


def _parse_tree(path: Path, text: bytes) -> ast.Module:
    try:
        return ast.parse(text, str(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as wrong:
        reason = f"{type(wrong).__name__}: {wrong}"
        raise BadFunctions(f"{path} is not Python ({reason})", "correct it") from wrong


def _find_definition(value: ast.expr, defined: dict[str, ast.FunctionDef]) -> Defined | None:
    if isinstance(value, ast.Lambda):
        return value
    found = defined.get(value.id) if isinstance(value, ast.Name) else None
    return found if found is not None and not found.decorator_list else None


def signature_of(defined: Defined) -> inspect.Signature:
    """Return the signature of a function as its text defines it, with names and defaults only."""
    asked = defined.args
    places = [*asked.posonlyargs, *asked.args]
    optional = len(places) - len(asked.defaults)
    kind = inspect.Parameter
    parameters = [
        kind(each.arg, kind.POSITIONAL_ONLY, default=kind.empty if at < optional else None)
        for at, each in enumerate(places)
    ]
    if asked.vararg is not None:
        parameters.append(kind(asked.vararg.arg, kind.VAR_POSITIONAL))
    for each, default in zip(asked.kwonlyargs, asked.kw_defaults, strict=True):
        needed = kind.empty if default is None else None
        parameters.append(kind(each.arg, kind.KEYWORD_ONLY, default=needed))
    return inspect.Signature(parameters)
