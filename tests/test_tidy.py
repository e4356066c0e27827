"""Laws of the tree: rules for every file that belongs to the project.

Files are those that git tracks or would track. Outside of a checkout (the image, a copy for the
compiled build) there are none, and the tests are skipped.
"""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from inorder.__main__ import ROOMS as PACKAGES
from tests import ROOT
from tests.services import absent

ROOMS = (*PACKAGES, "infra")
MAX_LINES = 700
LONGER_WITH_REASON: dict[str, str] = {
    "tests/topology/order/reorder/oracle.py": "its readings of the specification stay by its code",
}
"""The reason by file, for source that stays whole although it is longer than MAX_LINES."""

TEXT_SUFFIXES = {
    ".cfg", ".csv", ".html", ".ini", ".json", ".jsonl", ".md", ".properties", ".py",
    ".sh", ".sql", ".toml", ".tpl", ".txt", ".xml", ".yaml", ".yml", "",
}  # fmt: skip
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b")
FOREIGN = re.compile(
    r"(?<![\w.-])/(work|root|home|Users|opt/wheels)/"  # folders of somebody's checkout
    r"|\b(pypi|files\.pythonhosted|repo1?\.maven|repo\.maven\.apache|test\.pypi)\.org\b"
    r"|\bindex-url\b|\bextra-index\b|\bfind-links\b"
)
CONFLICT = re.compile(r"^(<{7}|>{7}) ")
INVERTED = re.compile(r"""(^\s*|[.:;!?)"|#*-]\s*)(O)f\s""")
"""The opening of a sentence that keeps its subject for the end."""

TELLS_OF_FOREIGN = {"Makefile", "tests/test_tidy.py"}
"""Files that name the options which keep such places out of others."""

DOCSTRING: Final = re.compile(r'(?:#.*\n|\s)*r?"""\s*(\S.*?)"""', re.DOTALL)


@cache
def tracked() -> tuple[str, ...]:
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        found = subprocess.run(
            listing, cwd=ROOT, capture_output=True, text=True, check=True, timeout=30
        )
    except (FileNotFoundError, subprocess.CalledProcessError):
        return ()
    return tuple(name for name in found.stdout.split("\0") if name and (ROOT / name).is_file())


def files() -> list[str]:
    names = tracked()
    if not names:
        absent(f"{ROOT} is not a git checkout, whose files these tests read")
    return list(names)


def text_files() -> list[str]:
    return [name for name in files() if Path(name).suffix in TEXT_SUFFIXES]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_source_files_are_short() -> None:
    sources = [name for name in files() if name.endswith((".py", ".sh"))]
    long = {name: len(read(name).splitlines()) for name in sources}
    long = {name: lines for name, lines in long.items() if lines > MAX_LINES}
    assert long.keys() == LONGER_WITH_REASON.keys(), f"cut these up or give a reason: {long}"


def test_nothing_is_left_unfinished() -> None:
    found = matches(UNFINISHED, text_files())
    assert found == []


def test_no_merge_conflict_is_left() -> None:
    assert matches(CONFLICT, text_files()) == []


def test_no_file_names_a_registry_or_home() -> None:
    names = [name for name in text_files() if name not in TELLS_OF_FOREIGN]
    assert matches(FOREIGN, names) == []


def test_no_sentence_opens_with_of() -> None:
    prose = (".md", ".py", ".sh", ".toml", ".yaml", ".yml")
    assert matches(INVERTED, [name for name in text_files() if name.endswith(prose)]) == []


def test_headers_are_not_read_by_client() -> None:
    """A header's name that is not UTF-8 is NULL in this client, which ends the process
    (`agents.kafka.whole_topic`). The demo has its own broker.
    """
    readers = tuple(f"{room}/" for room in ROOMS if room not in {"topology", "codec", "infra"})
    names = [
        name
        for name in text_files()
        if name.startswith(readers) and name != "cli/demo/watching.py" and name.endswith(".py")
    ]
    assert matches(re.compile(r"\.headers\(\)"), names) == []


def matches(pattern: re.Pattern[str], names: list[str]) -> list[str]:
    anywhere = re.compile(pattern.pattern, pattern.flags | re.MULTILINE)
    return [
        f"{name}:{number}: {line.strip()[:100]}"
        for name in names
        for text in [read(name)]
        if anywhere.search(text)
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def test_text_ends_in_one_newline() -> None:
    bad = []
    for name in text_files():
        content = (ROOT / name).read_bytes()
        if content and (not content.endswith(b"\n") or content.endswith(b"\n\n")):
            bad.append(f"{name}: its end")
        if b"\r" in content:
            bad.append(f"{name}: a carriage return")
    assert bad == []


def test_each_module_has_a_docstring() -> None:
    modules = [name for name in files() if name.endswith(".py") and name.startswith(ROOMS)]
    silent = [name for name in modules if read(name).strip() and not docstring(name)]
    assert modules
    assert silent == []


def test_test_files_name_their_kind() -> None:
    kinds = re.compile(r"\b(example|law|oracle|end to end|simulation)", re.IGNORECASE)
    tests = [name for name in files() if re.search(r"(^|/)test_[^/]*\.py$", name)]
    unsaid = [name for name in tests if not kinds.search(docstring(name))]
    assert unsaid == []


def test_test_lies_beside_its_module() -> None:
    """Another package can have a module of that name, but no folder above or below the test's."""
    sources = {name for name in files() if name.endswith(".py") and not name.startswith("tests/")}
    elsewhere = {}
    for name in files():
        if found := re.fullmatch(r"tests/(.*)/test_(\w+\.py)", name):
            folder, module = found.groups()
            below = {each for each in sources if each.startswith(f"{folder}/")}
            named = {each for each in below if each.endswith(f"/{module}")}
            if named and f"{folder}/{module}" not in named:
                elsewhere[name] = named
    assert elsewhere == {}


def docstring(name: str) -> str:
    found = DOCSTRING.match(read(name))
    return found[1] if found else ""


def test_locks_pin_with_hashes() -> None:
    for kind in ("run", "build", "spark", "tests", "docs", "release"):
        name = f"infra/locks/{kind}.txt"
        pins = re.findall(r"^[a-z0-9].*==.*$", read(name), re.MULTILINE)
        assert pins, name
        assert all(pin.endswith("\\") for pin in pins), f"{name}: a pin without a hash"


SAID_BY_THE_FILE = {"config", "event", "policy", "queries", "query", "settings", "topology"}
"""Parameters with types of their own: a class, or a protocol of the settings that are read."""


def test_settings_have_types() -> None:
    sources = [name for name in files() if re.match(r"topology/.*\.py$", name)]
    untyped = {name: found for name in sources if (found := list_untyped(read(name)))}
    assert untyped == {}


def list_untyped(source: str) -> list[str]:
    """Return `function(parameter)` for each parameter in `SAID_BY_THE_FILE` that allows Any."""
    return [
        f"{function.name}({parameter.arg})"
        for function in ast.walk(ast.parse(source))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for parameter in (
            *function.args.posonlyargs,
            *function.args.args,
            *function.args.kwonlyargs,
        )
        if parameter.arg in SAID_BY_THE_FILE
        and parameter.annotation is not None
        and re.search(r"\bAny\b", ast.unparse(parameter.annotation))
    ]


def test_imports_have_no_cycles() -> None:
    """Imports for types only and imports within functions count too."""
    imported = {
        module_of(name): {found for found in imports_of(name) if found != module_of(name)}
        for name in files()
        if name.endswith(".py") and name.partition("/")[0] in (*ROOMS, "benchmarks")
    }
    while leaves := [module for module, others in imported.items() if not others & imported.keys()]:
        for leaf in leaves:
            del imported[leaf]
    # The remaining modules are in a circle or import one. At least two of each circle are imported.
    needed = {module: others & imported.keys() for module, others in imported.items()}
    circles = sorted(m for m in needed if any(m in others for others in needed.values()))
    assert not circles


def test_operators_are_not_probed() -> None:
    """Modules that run operators have no `hasattr`, and no `getattr` with a default."""
    found = [
        f"{name}:{node.lineno}"
        for name in files()
        if name.endswith(".py") and name.startswith(("topology/", "agents/"))
        for node in ast.walk(ast.parse(read(name)))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and (node.func.id == "hasattr" or (node.func.id == "getattr" and len(node.args) > 2))
    ]
    assert found == []


def module_of(name: str) -> str:
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def imports_of(name: str) -> set[str]:
    """Return the imported modules: `from a import b` is a.b if that is a module, else a."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = ROOT / node.module.replace(".", "/") / f"{alias.name}.py"
                found.add(f"{node.module}.{alias.name}" if inner.is_file() else node.module)
    return found
