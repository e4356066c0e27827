"""Examples: the keys that docs/operate/secure.md makes are those that sources and workers read."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from inorder import SequencedProducer, SigningKey
from inorder.signing_keys import masters_of
from tests import ROOT

PAGE = (ROOT / "docs/operate/secure.md").read_text()


def block(kind: str, word: str) -> str:
    (found,) = [b for b in re.findall(rf"```{kind}\n(.*?)```", PAGE, re.S) if word in b]
    return str(found)


def test_the_keys_of_the_page_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = f"{ROOT / '.venv/bin'}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    script = block("sh", "inorder keys")
    subprocess.run(["bash", "-ec", script], env=environment, check=True, timeout=60)
    assert len(masters_of(Path("masters").read_text())) == 1
    assert SigningKey.read(Path("press-7.key")).speaks_for("press-7")
    assert SigningKey.read(Path("plant-1.key")).speaks_for("plant-1/oven-2")
    known: dict[str, object] = {}
    exec(
        block("python", "SigningKey").replace(
            "SequencedProducer(\n", "made = SequencedProducer(\n"
        ),
        known,
    )
    producer = known["made"]
    assert isinstance(producer, SequencedProducer)
    producer.close()
