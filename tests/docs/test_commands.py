"""Laws of the pages: a reader could type every command that a page shows.

Our programs accept the words and options. Targets, files, chart values, variables and metrics
exist. Output is tested by tests/docs/test_pages.py, by tests/docs/test_on_kafka.py, and by the
tests that the pages name.
"""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
import yaml
from prometheus_client import CollectorRegistry

from agents.kafka.security import FILE, NAMES, SECRETS, variable_of
from agents.watch.metrics.worker import Metrics
from sinks.counts import Counts, SinkCollector
from tests import ROOT
from tests.cli.invoking import commands
from tests.docs.commands import NAMED, PAGES, commands_of, spans_of
from tests.docs.judge import (
    FOLDERS,
    SCHEMA,
    Wrong,
    are_values,
    is_there,
    is_value,
    judge,
    options,
)
from topology.config import parse

KUBERNETES = ROOT / "docs/operate/kubernetes.md"
CHARTS = frozenset(SCHEMA["properties"])
"""Values of the chart, by the first part of their names."""
OPTION = re.compile(r"--[a-z]")
OPTIONS_OF_OTHERS = {
    *("--add", "--bootstrap-server"),  # Kafka's
    *("--py-files", "--deploy-mode", "--files", "--jars"),  # spark-submit's
    "--build-arg",  # of docker build
    *("--set-file", "--logs"),  # of helm
    *("--appendonly", "--maxmemory-policy"),  # of redis-server
}
VARIABLE = re.compile(r"\bINORDER_[A-Z_]*[A-Z]\b")
METRIC = re.compile(r"(?<![\w/.])inorder_[a-z_]+")
ENDS = re.compile(r"_(total|bucket|sum|count)$")
ALERT = re.compile(r"\bInorder(?!Source\b)[A-Z]\w+")
ALERTS = ROOT / "infra/helm/inorder/files/alerts.yaml"
YAML = re.compile(r"^```yaml\n(?P<lines>.*?)^```", re.M | re.S)


def by(pages: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", pages, ids=lambda page: str(page.relative_to(ROOT)))


by_page, by_named = by(PAGES), by(NAMED)


def faults(page: Path) -> list[str]:
    found = []
    for command in commands_of(page):
        try:
            judge(command)
        except Wrong as wrong:
            found.append(f"{command}: {wrong}")
    return found


@by_page
def test_law_commands_can_be_typed(page: Path) -> None:
    assert faults(page) == []


@by_named
def test_law_options_exist(page: Path) -> None:
    words = [span.split()[0].partition("=")[0] for span in spans_of(page) if OPTION.match(span)]
    assert [word for word in words if word not in options() | OPTIONS_OF_OTHERS] == []


@by_page
def test_law_files_exist(page: Path) -> None:
    found = []
    for word in (word for span in spans_of(page) for word in span.split()):
        try:
            is_there(word)
        except Wrong as wrong:
            found.append(str(wrong))
    assert found == []


@by_page
def test_law_topologies_are_valid(page: Path) -> None:
    for block in YAML.finditer(page.read_text("utf-8")):
        shown = yaml.safe_load(block["lines"])
        parse(yaml.safe_dump({"streams": {"default": {}}, **shown}))


@by_page
def test_law_variables_are_read(page: Path, variables: set[str]) -> None:
    assert set(VARIABLE.findall(page.read_text("utf-8"))) - variables == set()


@by_named
def test_law_metrics_exist(page: Path, metrics: set[str]) -> None:
    named = {word for span in spans_of(page) for word in METRIC.findall(span)}
    unknown = [
        name
        for name in sorted(named)
        if ENDS.sub("", name) not in metrics
        and not (name.endswith("_") and any(each.startswith(name) for each in metrics))
    ]
    assert unknown == []


@by_named
def test_law_alerts_exist(page: Path) -> None:
    alerts = set(re.findall(r"alert: (\w+)", ALERTS.read_text("utf-8")))
    assert set(ALERT.findall(page.read_text("utf-8"))) - alerts == set()


def test_law_chart_values_exist() -> None:
    values = [span for span in spans_of(KUBERNETES) if span.split(".")[0].split(":")[0] in CHARTS]
    token = "kafka: {secretEnv: {INORDER_HTTP_TOKEN: {name: …, key: …}}}"
    assert {"kafka.secretEnv", token} <= {*values}
    for value in values:
        read = yaml.safe_load(value)
        if isinstance(read, dict):
            are_values(read)
        else:
            is_value(value)


@pytest.fixture(scope="module")
def sources() -> str:
    """Return the text of all our source files."""
    rooms = [ROOT / folder for folder in FOLDERS - {"docs", "tests"}]
    files = [file for room in rooms for file in room.rglob("*") if file.suffix in {".py", ".sh"}]
    texts = [file.read_text("utf-8") for file in files]
    return "\n".join([*texts, (ROOT / "Makefile").read_text(), (ROOT / "setup.py").read_text()])


@pytest.fixture(scope="module")
def variables(sources: str) -> set[str]:
    secrets = (secret + FILE for secret in SECRETS)
    of_options = (
        "_".join(("inorder", *path, parameter.name or "")).replace("-", "_").upper()
        for path, command in commands()
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.envvar
    )
    named = (variable_of(name) for name in (*NAMES, *secrets))
    return {*VARIABLE.findall(sources), *named, *of_options}


@pytest.fixture(scope="module")
def metrics(sources: str) -> set[str]:
    """Return the metrics of a worker and a sink, and those that other programs name in full."""
    registry = CollectorRegistry()
    Metrics(registry, "merge")
    told = [*registry.collect(), *SinkCollector(Counts()).collect()]
    return {*(family.name for family in told), *(ENDS.sub("", n) for n in METRIC.findall(sources))}


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ("inorder worked --topology t.yaml", "has no command worked"),
        ("inorder worker --topolgy t.yaml --brokers k:1", "No such option"),
        ("docker build -f infra/no/Dockerfile .", "there is no"),
        ("make bench-core ARGS=--fast", "No such option"),
        ("helm install plant infra/helm/inorder --set broker=kafka:9092", "no value broker"),
        ("pip install '.[nothing]'", "no extra nothing"),
        ("spark-submit dist/inorder_spark.py run rates --topology t.yaml", "wants"),
    ],
)
def test_impossible_commands_are_found(said: str, wrong: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"Look:\n\n```\n{said}  # a comment\n```\n")
    (command,) = commands_of(page, tmp_path)
    assert command.line == 4
    with pytest.raises(Wrong, match=wrong):
        judge(command)


def test_pages_contain_commands() -> None:
    found = [command for page in PAGES for command in commands_of(page)]
    assert sum(command.is_whole for command in found) > 150
    assert len(found) > 300
