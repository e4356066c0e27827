"""Loading a user's own aggregates and functions (`topology.model.user_functions`) from a file."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from topology.model.user_functions import BadFunctions, UserFunctions
from topology.pattern.compile.values import FUNCTIONS
from topology.window.aggregates.built_in import BUILT_IN
from topology.window.aggregates.custom import Function

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z_0-9]{0,39}", re.ASCII)
MODULE: Final = "inorder_own"


def bringing(folder: Path) -> Callable[[str], UserFunctions]:
    """What loads a file given by its path from `folder`."""
    return lambda path: bring(folder / path)


def bring(path: Path) -> UserFunctions:
    """BadFunctions if the file is not there, fails, or does not define what it should."""
    module = _run(path)
    aggregates = _mapping(path, module, "aggregates")
    functions = _mapping(path, module, "functions")
    if not aggregates and not functions:
        raise BadFunctions(
            f"{path} defines neither `aggregates` nor `functions`",
            "write functions = {'distance': distance}",
        )
    for name, found in aggregates.items():
        check_name(path, name, BUILT_IN)
        if not isinstance(found, Function):
            raise BadFunctions(
                f"{path}: the aggregate {name!r} is no topology.window.Function",
                "write Function(init, add, combine, value)",
            )
        _check_begins(path, name, found)
    for name, found in functions.items():
        check_name(path, name, FUNCTIONS)
        if not callable(found):
            raise BadFunctions(f"{path}: {name!r} cannot be called", "give a function")
    return UserFunctions(aggregates, functions)


def _check_begins(path: Path, name: str, found: Function) -> None:
    parts = {"init": found.init, "add": found.add, "combine": found.combine, "value": found.value}
    for word, part in parts.items():
        if not callable(part):
            raise BadFunctions(f"{path}: {word} of {name!r} cannot be called", "give a function")
    try:
        found.init()
    except Exception as wrong:  # a user's code may raise anything
        told = f"{type(wrong).__name__}: {wrong}"
        raise BadFunctions(
            f"{path}: init() of {name!r} fails with {told}", "return the state of nothing"
        ) from wrong


def _run(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(MODULE, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise BadFunctions(
            f"there is no Python file {path}", "name one, by its path from the topology file"
        )
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as wrong:  # a user's code may raise anything
        told = f"{type(wrong).__name__}: {wrong}"
        raise BadFunctions(f"{path} fails with {told}", "make it import without fault") from wrong
    return module


def _mapping(path: Path, module: ModuleType, name: str) -> Mapping[str, Any]:
    found = getattr(module, name, {})
    if not isinstance(found, Mapping):
        raise BadFunctions(f"{path}: `{name}` is no mapping", f"write {name} = {{'name': ...}}")
    return found


def check_name(path: Path, name: Any, taken: Any) -> None:
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        raise BadFunctions(f"{path}: {name!r} is no name", "use letters, digits and _")
    if name in taken:
        raise BadFunctions(f"{path}: {name!r} is built in", "choose another name")
