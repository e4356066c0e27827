"""Examples: the commands that `inorder topics acls` prints; a broker enforces them in
end_to_end/test_acls.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.invoking import inorder, text_file

TOPOLOGY = """\
streams: {default: {}}
application: plant
queries: {all: {window: tumbling 1s, aggregate: {n: count()}}}
"""
CUT = f"{TOPOLOGY}stages: [reorder, merge, window, pattern, join]\n"
CHANGELOG = "plant.merge.events.sequenced.changelog"
OWN = "--transactional-id plant.merge. --resource-pattern-type prefixed"


def said(folder: Path, *options: str, topology: str = CUT) -> list[str]:
    path = text_file(folder / "t.yaml", topology)
    answer = inorder("topics", "acls", "--topology", str(path), *options).well()
    return [
        line.removeprefix("kafka-acls.sh --allow-principal ") for line in answer.out.splitlines()
    ]


def test_stage_gets_only_its_rights(tmp_path: Path) -> None:
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


def test_single_stage_gets_all_rights(tmp_path: Path) -> None:
    lines = said(tmp_path, topology=TOPOLOGY)
    topics = {line.split("--topic ")[1] for line in lines if "--topic " in line}
    assert {"events.raw", "events.ordered", "results.windows"} <= topics
    assert "plant.all.events.raw.changelog" in topics
    assert not any("sequenced" in line for line in lines)


def written(folder: Path, **edited: str) -> set[str]:
    """Return the topics that the window stage may write."""
    lines = said(folder, "--stage", "window", **edited)
    return {line.split("--topic ")[1] for line in lines if "Write --topic" in line}


def test_query_stage_writes_no_events(tmp_path: Path) -> None:
    changelog = "plant.window.events.ordered.changelog"
    assert written(tmp_path) == {"results.windows", "events.dead", changelog}


def test_upsert_query_writes_its_table(tmp_path: Path) -> None:
    own = CUT.replace("count()}", "count()}, upsert: true")
    assert {"results.windows", "results.all"} <= written(tmp_path, topology=own)


@pytest.mark.parametrize("stage", ["pattern", "join"])
def test_unused_stage_needs_no_rights(tmp_path: Path, stage: str) -> None:
    topology = f"{TOPOLOGY}stages: [reorder, merge, window, {stage}]\n"
    assert said(tmp_path, "--stage", stage, topology=topology) == []


def test_unknown_stage_is_refused(tmp_path: Path) -> None:
    path = text_file(tmp_path / "t.yaml", TOPOLOGY)
    inorder("topics", "acls", "--topology", str(path), "--stage", "mrge").refused(
        "no stage is named 'mrge'; there are all"
    )
