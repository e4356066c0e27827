"""Examples: what `inorder topics acls` says; in end_to_end/test_acls a broker enforces it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.invoking import inorder

TOPOLOGY = """\
streams: {default: {}}
application: plant
queries: {all: {window: tumbling 1s, aggregate: {n: count()}}}
"""
CHANGELOG = "plant.merge.events.sequenced.changelog"
OWN = "--transactional-id plant.merge. --resource-pattern-type prefixed"


def said(folder: Path, *options: str, more: str = "") -> list[str]:
    path = folder / "t.yaml"
    path.write_text(TOPOLOGY + more)
    answer = inorder("topics", "acls", "--topology", str(path), *options)
    assert answer.code == 0, answer.err
    return [
        line.removeprefix("kafka-acls.sh --allow-principal ") for line in answer.out.splitlines()
    ]


def test_a_stage_has_its_own(tmp_path: Path) -> None:
    assert said(tmp_path, "--stage", "merge", "--principal", "User:{stage}") == [
        "User:merge --operation Delete --operation Read --topic events.sequenced",
        "User:merge --operation Describe --topic events.raw",
        "User:merge --operation Read --operation Write --topic events.ordered",
        "User:merge --operation Write --topic events.late",
        "User:merge --operation Write --topic events.gaps",
        "User:merge --operation Write --topic events.dead",
        f"User:merge --operation Read --operation Write --topic {CHANGELOG}",
        "User:merge --operation Read --topic plant. --resource-pattern-type prefixed",
        "User:merge --operation Read --group plant.merge",
        f"User:merge --operation Describe --operation Write {OWN}",
    ]


def test_who_only_looks_writes_no_event(tmp_path: Path) -> None:
    lines = said(tmp_path, "--stage", "window")
    written = {line.split("--topic ")[1] for line in lines if "Write --topic" in line}
    assert written == {
        "results.windows",
        "events.dead",
        "plant.window.events.ordered.changelog",
    }


def test_a_query_with_a_table_writes_there_too(tmp_path: Path) -> None:
    own = TOPOLOGY.replace("count()}", "count()}, upsert: true")
    (tmp_path / "t.yaml").write_text(own)
    answer = inorder("topics", "acls", "--topology", tmp_path / "t.yaml", "--stage", "window")
    written = {
        line.split("--topic ")[1] for line in answer.out.splitlines() if "Write --topic" in line
    }
    assert {"results.windows", "results.all"} <= written


@pytest.mark.parametrize("stage", ["pattern", "join"])
def test_a_stage_without_work_needs_none(tmp_path: Path, stage: str) -> None:
    more = f"stages: [reorder, merge, window, {stage}]\n"
    assert said(tmp_path, "--stage", stage, more=more) == []


def test_a_stage_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(TOPOLOGY)
    answer = inorder("topics", "acls", "--topology", str(path), "--stage", "mrge")
    assert answer.code == 2
    assert "no stage is named 'mrge'; there are reorder, merge, " in answer.err
