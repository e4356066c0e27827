"""Examples: the output of `inorder check` for editors, and the file with all defaults filled in."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.invoking import inorder, text_file


def test_schema_is_json() -> None:
    answer = inorder("check", "--schema").well()
    schema = json.loads(answer.out)
    assert schema["properties"]["checkpoint"]["default"] == "100ms"


def test_printed_defaults_are_sound(tmp_path: Path) -> None:
    for given in ([], [tmp_path / "t.yaml"]):
        (tmp_path / "t.yaml").write_text("streams: {pitch: {merge: {idle_after: 5s}}}\n")
        answer = inorder("check", "--defaults", *given).well()
        (tmp_path / "whole.yaml").write_text(answer.out)
        inorder("check", tmp_path / "whole.yaml").well()
        assert inorder("check", "--defaults", tmp_path / "whole.yaml").out == answer.out
    assert "idle_after: 5s" in answer.out


def test_bad_file_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("streams:\n  pitch: {colour: red}\n")
    inorder("check", "--defaults", tmp_path / "t.yaml").refused("streams.pitch.colour (line 2)")


def test_missing_arguments_are_named() -> None:
    inorder("check").refused("give a topology file, or --schema, or --defaults")


def test_brackets_are_kept(tmp_path: Path) -> None:
    file = text_file(
        tmp_path / "t[red].yaml",
        "streams: {s: {clock: {unsynced: trust}}}\n"
        'queries: {silent: {pattern: "PATTERN SEQ(A a, !A) WHERE [room] WITHIN 1 min"}}\n',
    )
    answer = inorder("check", file).well()
    assert "t[red].yaml: sound" in answer.out.replace("\n", "")
    assert "W_ABSENCE" in answer.out
