"""Examples: Helm's notes after an install name the parts of the release."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from infra import helm
from tests.services import require

pytestmark = [pytest.mark.programs, pytest.mark.slow]

TOPOLOGY = 'topology="streams: {default: {}}"'
NOTES = 'notes: {{ include "inorder/templates/NOTES.txt" . | toJson }}'
"""A template that renders the notes: only an install on a cluster prints them."""


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require(helm.missing())
    copied = tmp_path_factory.mktemp("chart") / "inorder"
    shutil.copytree(helm.CHART, copied)
    (copied / "templates" / "shown.yaml").write_text(NOTES)
    return copied


def notes(chart: Path, *values: str) -> str:
    given = ("brokers=kafka:9092", *values)
    options = [word for each in given for word in ("--set", each)]
    command = [
        helm.find_program(),
        "template",
        "plant",
        str(chart),
        "--set-json",
        TOPOLOGY,
        *options,
    ]
    command += ["--kube-version", helm.KUBERNETES, "--namespace", "plant"]
    command += ["--show-only", "templates/shown.yaml"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return str(yaml.safe_load(done.stdout)["notes"])


def test_notes_name_job_and_token(chart: Path) -> None:
    told = notes(chart)
    assert "kubectl logs -n plant job/plant-topics" in told
    assert "kubectl get secret -n plant plant-http" in told
    assert "and that workers answer" in told
    assert "helm test -n plant plant --logs" in told


def test_notes_omit_disabled_parts(chart: Path) -> None:
    told = notes(chart, "workerDefaults.kind=Deployment", "topics.create=false", "token=false")
    assert "deployment/plant-all" in told
    assert not [word for word in ("topics", "secret", "workers answer") if word in told]


def test_notes_name_existing_workers(chart: Path) -> None:
    told = notes(chart, "workers.all=null", "workers.b.kind=Deployment", "workers.c.replicas=1")
    assert "deployment/plant-b" in told
    assert "and that workers answer" in told
