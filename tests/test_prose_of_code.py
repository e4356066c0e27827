"""Law: messages of programs, docstrings and comments follow the rules of `tests.kit.prose`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from prometheus_client import CollectorRegistry

from agents.watch.metrics.worker import Metrics
from cli.main import main
from inorder.__main__ import ROOMS
from tests import ROOT
from tests.kit import prose

ALERTS = ROOT / "infra/helm/inorder/files/alerts.yaml"
TELLING = frozenset({"Finding", "Problem", "Refused", "error", "warning"})
LEVELS = frozenset({"critical", "error", "exception", "info", "warning"})
LOGS = frozenset({"log", "logger"})


def helps(command: click.Command, path: str = "inorder") -> Iterator[tuple[str, str]]:
    yield path, command.help or ""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if (below := command.get_command(context, name)) is not None:
                yield from helps(below, f"{path} {name}")
    for option in command.params:
        if isinstance(option, click.Option):
            yield f"{path} {option.opts[-1]}", option.help or ""


def messages(module: Path) -> Iterator[str]:
    """Yield the texts of raised errors, of findings and of log lines; X stands for a value."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from _texts(node.exc.args)
        elif isinstance(node, ast.Call):
            match node.func:
                case ast.Name(id=name) if name in TELLING:
                    yield from _texts(node.args)
                case ast.Attribute(value=ast.Name(id=log), attr=level) if (
                    log in LOGS and level in LEVELS
                ):
                    yield from _texts(node.args[:1])


def _texts(nodes: list[ast.expr]) -> Iterator[str]:
    for node in nodes:
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        texts = [each.value if isinstance(each, ast.Constant) else "X" for each in parts]
        if all(isinstance(text, str) for text in texts):
            yield "".join(map(str, texts))


def find_faults(text: str) -> list[str]:
    """Return the faults of a text; a semicolon or a colon ends a sentence as a full stop does."""
    return [
        str(each)
        for sentence in prose.sentences(text)
        for part in re.split(r"[;:] ", sentence)
        for each in prose.of_sentence(part[:1].upper() + part[1:])
    ]


@pytest.mark.parametrize(("place", "text"), list(helps(main)))
def test_help_is_plain(place: str, text: str) -> None:
    assert find_faults(text) == [], place


def test_metrics_help_is_plain() -> None:
    registry = CollectorRegistry()
    Metrics(registry, "merge")
    texts = {each.name: find_faults(each.documentation) for each in registry.collect()}
    assert {name: faults for name, faults in texts.items() if faults} == {}


def test_alerts_are_plain() -> None:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    faults = {
        rule["alert"]: [*find_faults(notes["summary"]), *find_faults(notes["description"])]
        for rule in group["rules"]
        for notes in [rule["annotations"]]
    }
    assert {alert: each for alert, each in faults.items() if each} == {}


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_messages_are_plain(room: str) -> None:
    faults = {
        f"{module.relative_to(ROOT)}: {fault}"
        for module in sorted((ROOT / room).rglob("*.py"))
        for text in messages(module)
        for fault in find_faults(text)
    }
    assert faults == set()


TESTS = sorted(folder.name for folder in (ROOT / "tests").iterdir() if folder.is_dir())


@pytest.mark.parametrize(
    "package", [*sorted(ROOMS), "infra", *(f"tests/{name}" for name in TESTS if name[0] != "_")]
)
def test_docstrings_are_plain(package: str) -> None:
    faults = {
        f"{module.relative_to(ROOT)}: {fault}"
        for module in sorted((ROOT / package).rglob("*.py"))
        for fault in prose.of_python(module.read_text(encoding="utf-8"))
    }
    assert faults == set()


def test_top_level_docstrings_are_plain() -> None:
    faults = {
        f"{module.name}: {fault}"
        for module in sorted((ROOT / "tests").glob("*.py"))
        for fault in prose.of_python(module.read_text(encoding="utf-8"))
    }
    assert faults == set()
