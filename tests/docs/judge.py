"""Judge whether a command could be typed as it stands: the program accepts it, and what it names
exists.

Nothing is run. A word in capitals (`DIR`, `HOST:PORT`) stands for a value that the reader chooses.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import click
import yaml

import benchmarks.__main__ as bench
from cli.main import main
from infra.helm import CHART
from tests import ROOT
from tests.cli.invoking import commands
from tests.docs.commands import Command, leaves_out, program_of

SCHEMA: Final[Mapping[str, Any]] = yaml.safe_load((CHART / "values.schema.json").read_text())
SETTING: Final = {"--set", "--set-file", "--set-string", "--set-json", "--values", "-f"}
HELM: Final = {
    **dict.fromkeys(("install", "upgrade", "template"), SETTING | {"--namespace"}),
    "test": {"--namespace", "--logs"},
}
HELM_FLAGS: Final = {"--logs"}
"""Options of Helm without a value."""
MAKEFILE: Final = (ROOT / "Makefile").read_text()
TARGETS: Final = re.findall(r"^([a-z%-]+):(?!=)", MAKEFILE, re.M)
VARIABLES: Final = frozenset(re.findall(r"^([A-Z_]+) \??:?=", MAKEFILE, re.M))
PLACEHOLDER: Final = re.compile(r"^[^a-z]*[A-Z]+[^a-z]*$")
FOLDERS: Final = frozenset(
    {
        *("agents", "benchmarks", "cli", "codec", "docs", "infra", "inorder", "producers", "sinks"),
        *("recordings", "spark_analytics", "tests", "topology"),
    }
)
NAMED: Final = re.compile(r"^(?P<path>(?:[\w.-]+/)+[\w.-]*)$")


class Wrong(Exception):
    """A reason why a command could not be typed as it stands."""


def judge(command: Command) -> None:
    """Raise Wrong if the command could not be typed as it stands."""
    program, *words = command.words
    {
        "inorder": judge_inorder,
        "make": _make,
        "helm": _helm,
        "python": _python,
        "pip": _pip,
        "spark-submit": _spark_submit,
    }.get(program_of(program), _nothing)(words, command.is_whole)
    for word in words:
        is_there(word.partition("=")[2] or word)


def is_there(word: str) -> None:
    """Raise Wrong if a word looks like a path in this repository but names no file."""
    found = NAMED.match(word)
    if found is None or word.split("/", maxsplit=1)[0] not in FOLDERS:
        return
    path = ROOT / found["path"]
    if not path.exists() and not path.with_suffix(".py").exists():
        raise Wrong(f"there is no {word}")


def _nothing(_: Sequence[str], __: bool) -> None:
    """Accept a third-party program."""


# -- inorder ---------------------------------------------------------------------------------------


def judge_inorder(words: Sequence[str], is_whole: bool) -> None:
    """Raise Wrong if no command takes the words after `inorder`."""
    context = click.Context(main, info_name="inorder")
    command: click.Command = main
    rest = list(words)
    while isinstance(command, click.Group) and rest and not leaves_out(rest[0]):
        if rest[0].startswith("-"):
            break
        name = rest.pop(0)
        found = command.get_command(context, name)
        if found is None:
            raise Wrong(f"`{context.command_path}` has no command {name}")
        command = found
        context = click.Context(command, info_name=name, parent=context)
    if isinstance(command, click.Group) and is_whole:
        raise Wrong(f"`{context.command_path}` wants a command")
    takes(command, context, rest, is_whole)


def takes(
    command: click.Command, context: click.Context, words: Sequence[str], is_whole: bool
) -> None:
    """Raise Wrong if the command does not take these options and values.

    A whole command must also have all that it requires.
    """
    kept = [word for word in words if not leaves_out(word) or word.startswith("-")]
    parser = command.make_parser(context)
    try:
        given, rest, _ = parser.parse_args(kept)
    except click.BadOptionUsage as wrong:
        if is_whole or type(wrong) is not click.BadOptionUsage:
            raise Wrong(wrong.format_message()) from wrong
        return  # The value of an option is left out.
    except click.UsageError as wrong:
        raise Wrong(wrong.format_message()) from wrong
    if rest:
        raise Wrong(f"`{context.command_path}` takes no {rest[0]}")
    for parameter in command.get_params(context):
        value = given.get(parameter.name or "")
        if parameter.name not in given or value is None or "UNSET" in repr(value):
            if is_whole and parameter.required and parameter.envvar is None:
                raise Wrong(f"`{context.command_path}` wants {parameter.human_readable_name}")
        elif not isinstance(parameter.type, click.Path | click.File):
            _converts(parameter, context, value)


def _converts(parameter: click.Parameter, context: click.Context, value: Any) -> None:
    texts = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    if any(isinstance(text, str) and PLACEHOLDER.match(text) for text in texts):
        return
    try:
        parameter.type_cast_value(context, value)
    except click.UsageError as wrong:
        raise Wrong(wrong.format_message()) from wrong


@cache
def options() -> frozenset[str]:
    """Return the options of all commands and benchmarks."""
    return frozenset(
        option
        for command in (*(each for _, each in commands()), *_benchmarks().values())
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    ) | {"--help", "--version"}


@cache
def _benchmarks() -> dict[str, click.Command]:
    """Return the benchmarks that are click commands."""
    modules = {name: importlib.import_module(f"benchmarks.{name}") for name in bench.find_all()}
    return {
        name: module.command
        for name, module in modules.items()
        if isinstance(getattr(module, "command", None), click.Command)
    }


# -- others ----------------------------------------------------------------------------------------


def _make(words: Sequence[str], _: bool) -> None:
    targets = [word for word in words if "=" not in word]
    arguments = ""
    for word in words:
        name, equals, value = word.partition("=")
        if word.startswith("-"):
            raise Wrong(f"make does not pass {word} on; write ARGS=")
        if equals and name not in VARIABLES:
            raise Wrong(f"the Makefile has no {name}")
        arguments = value if name == "ARGS" else arguments
    for target in targets:
        if target not in TARGETS and not _of_pattern(target):
            raise Wrong(f"there is no target {target}")
        called = _called_by(target)
        if arguments and called is not None:
            command, given = called
            parts = [*given, *shlex.split(arguments)]
            takes(command, click.Context(command, info_name=target), parts, is_whole=False)


def _of_pattern(target: str) -> bool:
    kind, _, name = target.partition("-")
    if kind == "bench":
        return name.replace("-", "_") in bench.find_all()
    if kind == "spark":
        from cli.spark.command import JOBS

        return name in JOBS
    return False


def _called_by(target: str) -> tuple[click.Command, list[str]] | None:
    """Return the command that gets ARGS, or None for a third-party program."""
    from cli.demo.show import command as demo
    from cli.spark.command import run

    kind, _, name = target.partition("-")
    if target == "demo":
        return demo, []
    if kind == "bench" and name.replace("-", "_") in _benchmarks():
        return _benchmarks()[name.replace("-", "_")], []
    if kind == "spark" and _of_pattern(target):
        return run, [name]
    return None


def _helm(words: Sequence[str], is_whole: bool) -> None:
    verb, *rest = words
    known = HELM.get(verb)
    if known is None:
        raise Wrong(f"helm has no {verb}, or the test does not know it")
    places = []
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            places.append(word)
            continue
        name, equals, value = word.partition("=")
        if name not in known:
            raise Wrong(f"helm {verb} has no {name}, or the test does not know it")
        if name in HELM_FLAGS:
            continue
        value = value if equals else rest.pop(0)
        if name.startswith("--set"):
            is_value(value.partition("=")[0])
        else:
            is_there(value)
    chart = [] if verb == "test" else [str(CHART.relative_to(ROOT))]
    if is_whole and places[1:] != chart:
        raise Wrong(f"helm {verb} wants a name{' and the chart' if chart else ''}, not {places}")


def is_value(name: str) -> None:
    """Raise Wrong if the chart has no value with that name, such as a.b.c; a backslash precedes a
    dot within a name.
    """
    place: Any = SCHEMA
    for key in re.split(r"(?<!\\)\.", name):
        if "properties" in place and key in place["properties"]:
            place = place["properties"][key]
        elif isinstance(place.get("additionalProperties"), Mapping):
            place = place["additionalProperties"]
        elif "$ref" in place:
            raise Wrong(f"the test does not follow $ref at {key}")
        elif place.get("type") != "object" or place.get("additionalProperties") is False:
            raise Wrong(f"the chart has no value {name}")


def are_values(values: Mapping[str, Any], below: str = "") -> None:
    """Raise Wrong if the chart has no values with these names."""
    for key, value in values.items():
        name = f"{below}{key.replace('.', chr(92) + '.')}"
        is_value(name)
        if isinstance(value, Mapping):
            are_values(value, f"{name}.")


def _python(words: Sequence[str], is_whole: bool) -> None:
    if words[:1] == ["-m"]:
        if importlib.util.find_spec(words[1]) is None:
            raise Wrong(f"there is no module {words[1]}")
        if words[1] == "benchmarks" and words[2:]:
            _make([f"bench-{words[2]}", f"ARGS={shlex.join(words[3:])}"], is_whole)
    elif words[:1] == ["-c"]:
        compile(words[1], "a page", "exec")
    elif words and is_whole and not (ROOT / words[0]).is_file():
        raise Wrong(f"there is no {words[0]}")


def _pip(words: Sequence[str], _: bool) -> None:
    projects = [
        (folder, tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"])
        for folder in (".", "./inorder")
    ]
    extras: dict[str, set[str]] = {}
    for folder, project in projects:
        extras[folder] = extras[project["name"]] = {*project.get("optional-dependencies", ())}
    verb, *asked = words
    if verb != "install":
        raise Wrong(f"the test knows no pip {verb}")
    for word in asked:
        if word.startswith(("-", "dist/")):
            continue
        name, _bracket, rest = word.partition("[")
        if name not in extras:
            raise Wrong(f"{name} is not a distribution of ours")
        if rest and not {*rest.rstrip("]").split(",")} <= extras[name]:
            raise Wrong(f"{name} has no extra {rest}")


def _spark_submit(words: Sequence[str], is_whole: bool) -> None:
    """Judge the words after the application, which are for `inorder spark`."""
    for at, word in enumerate(words):
        if word.endswith(".py") and not word.endswith(".zip"):
            judge_inorder(["spark", *words[at + 1 :]], is_whole)
            return
