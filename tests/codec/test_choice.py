"""Examples: the codec in use, and the reason for it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from codec import seams
from tests.kit.programs import Ended, python

native = pytest.importorskip("codec.native.records", reason="the compiled codec is not built")

SAY = "import codec; print(codec.AT_WORK, codec.EventReader.__module__, sep='|')"


def said(wanted: str, program: str = SAY) -> Ended:
    return python("-c", program, env={"INORDER_CODEC": wanted})


@pytest.mark.parametrize(
    ("wanted", "at_work"),
    [("native", "native|codec.native.events"), ("plain", "plain: INORDER_CODEC=plain|codec.plain")],
)
def test_variable_selects_the_codec(wanted: str, at_work: str) -> None:
    assert said(wanted).stdout.strip() == at_work


def test_unknown_codec_is_refused() -> None:
    found = said("quick")
    assert found.returncode != 0
    refusal = "INORDER_CODEC=quick is not a codec; write plain or native, or leave it unset"
    assert refusal in found.stderr


def test_plain_codec_gives_its_reason() -> None:
    hidden = f"import sys; sys.modules['codec.native.events'] = None; {SAY}"
    found = said("", hidden)
    assert found.stdout.startswith("plain: the compiled codec is not built (")
    assert found.stdout.strip().endswith("|codec.plain")
    refused = said("native", hidden)
    assert "INORDER_CODEC=native, but the compiled codec is not built" in refused.stderr


def test_missing_method_is_a_misfit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seams.misfit() == ""
    monkeypatch.setattr(seams, "BatchBuilder", lambda *_: SimpleNamespace(append=1, seal=1))
    assert "RecordBatchWriter has no seal" in seams.misfit()


def test_outdated_build_is_a_misfit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seams, "_digest", lambda: "another")
    assert "built from other sources; run make setup" in seams.misfit()
    monkeypatch.setattr(seams, "_digest", lambda: "")  # The sources are not installed.
    assert seams.misfit() == ""
