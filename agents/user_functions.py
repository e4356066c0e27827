"""Loading a user's own aggregates, functions and detectors from a file.

They are `topology.model.user_functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from topology.config.user_functions import faults
from topology.config.written_functions import OWN_NAMES, texts_of
from topology.model.user_functions import BadFunctions, UserFunctions

MODULE: Final = "inorder_own"


def bringing(folder: Path) -> Callable[[str], UserFunctions]:
    """What loads a file given by its path from `folder`."""
    return lambda path: bring(folder / path)


def bring(path: Path) -> UserFunctions:
    """BadFunctions if the file is not there, fails, or does not define what it should."""
    try:
        text = path.read_bytes()
    except OSError as wrong:
        raise BadFunctions(
            f"there is no Python file {path}", "name one, by its path from the topology file"
        ) from wrong
    module = _run(path, text)
    names = {name: _mapping(path, module, name) for name in OWN_NAMES}
    if not any(names.values()):
        raise BadFunctions(
            f"{path} defines neither `aggregates` nor `functions` nor `detectors`",
            "write functions = {'distance': distance}",
        )
    brought = UserFunctions(**names)
    for message, remedy in faults(brought):
        raise BadFunctions(f"{path}: {message}", remedy)
    return brought._replace(texts=texts_of(text, names))


def _run(path: Path, text: bytes) -> ModuleType:
    """The module that this text defines: never an older one that Python has compiled before."""
    module = ModuleType(MODULE)
    module.__file__ = str(path)
    try:
        exec(compile(text, path, "exec"), vars(module))
    except (Exception, SystemExit) as wrong:  # a user's code may raise anything
        fault = f"{type(wrong).__name__}: {wrong}"
        raise BadFunctions(f"{path} fails with {fault}", "make it import without fault") from wrong
    return module


def _mapping(path: Path, module: ModuleType, name: str) -> Mapping[str, Any]:
    found = vars(module).get(name, {})
    if not isinstance(found, Mapping):
        raise BadFunctions(f"{path}: `{name}` is no mapping", f"write {name} = {{'name': ...}}")
    return found
