"""Examples: code and settings on pages run as they stand, with the results that the pages state."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
from pathlib import Path

import pytest
import yaml

from inorder import SequencedProducer, SigningKey
from inorder.signing_keys import parse_master_keys
from tests import ROOT
from tests.cli.invoking import inorder
from tests.docs.test_pages import part_of

EXAMPLES = ROOT / "docs/examples"


def block(page: str, kind: str, word: str = "") -> str:
    """Return the only block of this kind that contains the word."""
    text = (ROOT / page).read_text(encoding="utf-8")
    (found,) = [b for b in re.findall(rf"```{kind}\n(.*?)```", text, re.S) if word in b]
    return str(found)


def test_ci_page_has_a_passing_test() -> None:
    exec(
        compile(
            block("docs/guides/test_in_ci.md", "python", "TopologyDriver"), "test_in_ci.md", "exec"
        ),
        {},
    )


def test_ci_page_shows_kafka_example() -> None:
    """tests/infra/containers/test_on_containers.py runs that example."""
    example = (EXAMPLES / "kafka_test.py").read_text(encoding="utf-8")
    assert example.endswith(block("docs/guides/test_in_ci.md", "python", "DockerContainer"))


def test_size_page_script_prints_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "size.py"))["main"](50, 5)
    said = capsys.readouterr().out
    assert re.fullmatch(r"-?[\d.]+ MB, [\d.]+ us an event, \d+ buffered\n", said), said


def test_shown_detector_matches_example(tmp_path: Path) -> None:
    (tmp_path / "detectors.py").write_text(block("docs/guides/detectors.md", "python"))
    (tmp_path / "detector.yaml").write_bytes((EXAMPLES / "detector.yaml").read_bytes())
    events = EXAMPLES / "detector.jsonl"
    found, wanted = (
        inorder("replay", "--topology", folder / "detector.yaml", "--show", "match", events)
        for folder in (tmp_path, EXAMPLES)
    )
    assert found.well().lines == wanted.lines != []


def test_readme_shows_the_topology_file() -> None:
    file = EXAMPLES / "telemetry.yaml"
    assert yaml.safe_load(block("README.md", "yaml")) == yaml.safe_load(file.read_text())


def test_readme_shows_real_output_lines() -> None:
    """Lines appear in the output in the order shown."""
    shown = [json.loads(line) for line in block("README.md", "json").splitlines()]
    sample = EXAMPLES / "telemetry.csv"
    said = iter(inorder("replay", "--topology", sample.with_suffix(".yaml"), sample).lines)
    for part in shown:
        assert any(part_of(line, part) == part for line in said), part


def test_readme_program_prints_its_balance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    inorder("sample").well()
    exec(compile(block("README.md", "python"), "README.md", "exec"), {})
    assert capsys.readouterr().out == block("README.md", "text")


def test_secure_page_makes_working_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = "docs/operate/secure.md"
    monkeypatch.chdir(tmp_path)
    path = f"{ROOT / '.venv/bin'}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    script = block(page, "sh", "inorder keys")
    subprocess.run(["bash", "-ec", script], env=environment, check=True, timeout=60)
    assert len(parse_master_keys(Path("masters").read_text())) == 1
    assert SigningKey.read(Path("press-7.key")).speaks_for("press-7")
    assert SigningKey.read(Path("plant-1.key")).speaks_for("plant-1/oven-2")
    code, known = block(page, "python", "SigningKey"), dict[str, object]()
    exec(code.replace("SequencedProducer(\n", "made = SequencedProducer(\n"), known)
    producer = known["made"]
    assert isinstance(producer, SequencedProducer)
    producer.close()
