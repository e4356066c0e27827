"""Loads a user's own aggregates, functions and detectors from a file.

`topology.base.user_functions` defines their form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from topology.base.user_functions import BadFunctions, UserFunctions
from topology.config.user_functions import KINDS, faults, missing_file_error, require_definitions
from topology.config.written_functions import texts_of

MODULE: Final = "inorder_own"


def make_loader(folder: Path) -> Callable[[str], UserFunctions]:
    """Return a function that loads a file by its path relative to `folder`."""
    return lambda path: load_functions(folder / path)


def load_functions(path: Path) -> UserFunctions:
    """Load and return a file's definitions.

    Raises BadFunctions if the file is missing, fails, or has an invalid definition or none.
    """
    try:
        text = path.read_bytes()
    except OSError as wrong:
        raise missing_file_error(path) from wrong
    module = _run(path, text)
    names = {name: _find_mapping(path, module, name) for name in KINDS}
    require_definitions(path, names)
    brought = UserFunctions(**names)
    for message, remedy in faults(brought):
        raise BadFunctions(f"{path}: {message}", remedy)
    return brought._replace(texts=texts_of(text, names))


def _run(path: Path, text: bytes) -> ModuleType:
    """Return a module of this text; unlike an import, this never uses an older compiled version."""
    module = ModuleType(MODULE)
    module.__file__ = str(path)
    try:
        exec(compile(text, path, "exec"), vars(module))
    except (Exception, SystemExit) as wrong:  # A user's code may raise anything.
        fault = f"{type(wrong).__name__}: {wrong}"
        raise BadFunctions(
            f"{path} fails with {fault}", "correct it so that it can be imported"
        ) from wrong
    return module


def _find_mapping(path: Path, module: ModuleType, name: str) -> Mapping[str, Any]:
    found = vars(module).get(name, {})
    if not isinstance(found, Mapping):
        raise BadFunctions(f"{path}: `{name}` is not a mapping", f"write {name} = {{'name': ...}}")
    return found
