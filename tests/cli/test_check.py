"""Examples: what `inorder check` says of sound and of unsound topology files."""

from __future__ import annotations

from pathlib import Path

from agents.topics import declared
from tests.cli.invoking import TOPOLOGY, inorder
from topology.description import parse

UNSOUND = "streams: {default: {input: raw, reorder: {rule: guess, max_wait: 5}}}\ncolour: red\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "topology.yaml"
    path.write_text(text)
    return path


def test_a_sound_file_is_drawn_with_every_topic_it_needs(tmp_path: Path) -> None:
    path = written(tmp_path, TOPOLOGY)
    answer = inorder("check", path)
    assert (answer.code, answer.err) == (0, "")
    assert "default: raw -> events.ordered" in answer.out
    for spec in declared(parse(TOPOLOGY)):
        assert f"{spec.name}: {spec.partitions} partitions" in answer.out


def test_every_problem_is_told_with_its_path_and_exit_2(tmp_path: Path) -> None:
    answer = inorder("check", written(tmp_path, UNSOUND))
    assert (answer.code, answer.out) == (2, "")
    for place in ("streams.default.reorder.rule", "streams.default.reorder.max_wait", "colour"):
        assert place in answer.err
    assert "Traceback" not in answer.err


def test_a_file_that_is_not_there_ends_with_2(tmp_path: Path) -> None:
    answer = inorder("check", tmp_path / "absent.yaml")
    assert answer.code == 2
    assert "absent.yaml" in answer.err
    (tmp_path / "latin.yaml").write_bytes(b"streams: \xff\n")
    assert "not UTF-8" in inorder("check", tmp_path / "latin.yaml").err


def test_queries_are_listed_with_what_one_should_know_of_them(tmp_path: Path) -> None:
    query = "PATTERN SEQ(A a, B+ b[], C c) WITHIN 1 s USING skip_till_any MATCHES ALL"
    queries = f'queries: {{many: {{pattern: "{query}"}}}}\n'
    answer = inorder("check", written(tmp_path, TOPOLOGY + queries))
    assert (answer.code, answer.err) == (0, "")
    assert "many: pattern" in answer.out
    assert "W_EXPONENTIAL" in answer.out


def test_a_query_that_no_stage_runs_is_told(tmp_path: Path) -> None:
    queries = "queries: {n: {window: tumbling 1s, aggregate: {n: count()}}}\n"
    path = written(tmp_path, TOPOLOGY + queries)
    assert "no stage runs it" not in inorder("check", path).out
    path = written(tmp_path, TOPOLOGY + queries + "stages: [reorder, merge]\n")
    assert "no stage runs it: add window to `stages`" in inorder("check", path).out
