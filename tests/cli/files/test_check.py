"""Examples: the output of `inorder check` for sound and unsound topology files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents.kafka.declared import list_needed_topics
from cli.local.embedded import EmbeddedBroker
from tests.cli.invoking import TOPOLOGY, inorder, text_file
from topology.config import parse

UNSOUND = "streams: {default: {input: raw, reorder: {rule: guess, max_wait: 5}}}\ncolour: red\n"


def written(folder: Path, text: str) -> Path:
    return text_file(folder / "topology.yaml", text)


def test_sound_file_lists_its_topics(tmp_path: Path) -> None:
    path = written(tmp_path, TOPOLOGY)
    answer = inorder("check", path)
    assert (answer.code, answer.err) == (0, "")
    assert "default: raw -> events.ordered" in answer.out
    for spec in list_needed_topics(parse(TOPOLOGY)):
        assert f"{spec.name}: {spec.partitions} partitions" in answer.out


def test_every_problem_has_its_path(tmp_path: Path) -> None:
    places = ("streams.default.reorder.rule", "streams.default.reorder.max_wait", "colour")
    inorder("check", written(tmp_path, UNSOUND)).refused(*places)


def test_json_describes_the_file(tmp_path: Path) -> None:
    answer = inorder("check", "--json", written(tmp_path, TOPOLOGY))
    (found,) = answer.lines
    assert (answer.code, found["sound"], found["stages"]) == (0, True, ["all"])
    assert found["streams"] == {"default": ["raw", "events.ordered"]}
    assert found["topics"] == {
        spec.name: spec.partitions for spec in list_needed_topics(parse(TOPOLOGY))
    }
    assert "events.sequenced" not in found["topics"]
    answer = inorder("check", "--json", written(tmp_path, UNSOUND))
    (found,) = answer.lines
    assert (answer.code, found["sound"]) == (2, False)
    paths = {problem["path"]: problem["line"] for problem in found["problems"]}
    assert paths["streams.default.reorder.rule"] == 1
    assert paths["colour"] == 2


def test_unreadable_file_is_refused(tmp_path: Path) -> None:
    inorder("check", tmp_path / "absent.yaml").refused("absent.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"streams: \xff\n")
    inorder("check", tmp_path / "latin.yaml").refused("not UTF-8")


def test_queries_have_warnings(tmp_path: Path) -> None:
    query = "PATTERN SEQ(A a, B+ b[], C c) WITHIN 1 s USING skip_till_any MATCHES ALL"
    queries = f'queries: {{many: {{pattern: "{query}"}}}}\n'
    answer = inorder("check", written(tmp_path, TOPOLOGY + queries))
    assert (answer.code, answer.err) == (0, "")
    assert "many: pattern" in answer.out
    assert "W_EXPONENTIAL" in answer.out


@pytest.mark.parametrize("command", ["check", "replay --topology"])
def test_bare_word_is_refused(tmp_path: Path, command: str) -> None:
    """A bare word is a parameter, and a topology file gives no values for parameters."""
    query = "PATTERN SEQ(D d, R r) WHERE device = d.device WITHIN 5 s"
    path = written(tmp_path, TOPOLOGY + f'queries: {{p: {{pattern: "{query}"}}}}\n')
    place = "`$device` has no value (line 1, column 29 of the pattern)"
    says = ("queries.p.pattern (line ", f"{place}; write `d.device`")
    inorder(*command.split(), path).refused(*says)


def test_query_without_stage_warns(tmp_path: Path) -> None:
    queries = "queries: {n: {window: tumbling 1s, aggregate: {n: count()}}}\n"
    path = written(tmp_path, TOPOLOGY + queries)
    assert "no stage runs it" not in inorder("check", path).out
    path = written(tmp_path, TOPOLOGY + queries + "stages: [reorder, merge]\n")
    assert "no stage runs it: add window to `stages`" in inorder("check", path).out


FORMULAS = """\
import pathlib
pathlib.Path(__file__).with_name("was_run").touch()
from topology.queries.window import Function
def distance(a, b, *, scale=1):
    return abs(a - b)
aggregates = {"spread": Function(list, list, list)}
functions = {"distance": distance, "double": lambda a: 2 * a}
functions["half"] = half = distance
"""
OWN = """\
streams: {default: {}}
functions: formulas.py
queries:
  s: {window: tumbling 1s, aggregate: {s: spread(payload.v)}}
  far: {pattern: "PATTERN SEQ(A a, A b) WHERE distance(a.v, b.v) >= double(b.v) WITHIN 1 s"}
"""


def with_functions(folder: Path, formulas: str = FORMULAS, topology: str = OWN) -> Path:
    (folder / "formulas.py").write_text(formulas)
    return written(folder, topology)


def test_functions_file_is_not_run(tmp_path: Path) -> None:
    path = with_functions(tmp_path, FORMULAS.replace("half = ", ""))
    for options in ([], ["--defaults"]):
        answer = inorder("check", *options, path)
        assert (answer.code, answer.err) == (0, "")
    assert not (tmp_path / "was_run").exists()
    inorder("check", "--trust", path).well()
    assert (tmp_path / "was_run").exists()


def test_extra_arguments_warn(tmp_path: Path) -> None:
    path = with_functions(
        tmp_path, FORMULAS.replace("half = ", ""), OWN.replace("double(b.v)", "double(a.v, b.v)")
    )
    for options in ([], ["--trust"]):
        found = " ".join(inorder("check", *options, path).out.split())
        assert "W_ARITY: `double` is called with 2 values; it takes (a)" in found
        assert "`distance`" not in found


TRUST = "only running the file shows its names"


@pytest.mark.parametrize(
    ("formulas", "words"),
    [
        ("from elsewhere import functions", TRUST),
        ("from elsewhere import *", TRUST),
        ("functions = {}; functions.update(x=abs)", TRUST),
        ("functions = {name: abs for name in 'xy'}", TRUST),
        ("functions = {**more}", TRUST),
        ("if True:\n    functions = {'x': abs}", TRUST),
        ("functions = {'x': abs}\nfunctions |= {'y': abs}", TRUST),
        ("functions = make()", TRUST),
        ("def functions(): pass", TRUST),
        ("for functions in (): pass", TRUST),
        ("functions = {", "is not Python (SyntaxError"),
        ("functions = []", "`functions` is not a mapping"),
        ("x = 1", "defines neither `aggregates` nor `functions`"),
        ("functions = {'abs': abs}", "'abs' is built in"),
        ("functions = {'a b': abs}", "'a b' is not a name"),
        ("functions = {3: abs}", "3 is not a name"),
        ("functions = {'x': 3}", "'x' cannot be called"),
        ("functions = dict(x=abs)", "`spread` is not an aggregate"),
    ],
)
def test_invalid_functions_are_refused(tmp_path: Path, formulas: str, words: str) -> None:
    """If only running the file shows its names, the error asks for --trust."""
    answer = inorder("check", with_functions(tmp_path, formulas)).refused(words)
    assert "--trust" in answer.err or words != TRUST


ABSENT = "PATTERN SEQ(Alive a, !Alive) WHERE [machine] WITHIN 5 min"


@pytest.mark.parametrize(
    ("pattern", "more", "is_told"),
    [
        (ABSENT, "", True),
        (f"{ABSENT} EMIT EAGER", "answer: final", True),
        ("PATTERN OR(Alive a, SEQ(Alive b, !Alive)) WITHIN 5 min", "", True),
        (f"{ABSENT} EMIT EAGER", "", False),
        (ABSENT, "quality: {accuracy: 99%, max_wait: 2s}", False),
        ("PATTERN SEQ(Alive a, !Alive, Alive b) WITHIN 5 min", "", False),
        ("PATTERN SEQ(Alive a, Alive b) WITHIN 5 min", "", False),
    ],
)
def test_late_absence_report_warns(tmp_path: Path, pattern: str, more: str, is_told: bool) -> None:
    path = text_file(
        tmp_path / "t.yaml",
        f'streams: {{default: {{}}}}\nqueries:\n  q:\n    pattern: "{pattern}"\n    {more}\n',
    )
    (query,) = json.loads(inorder("check", "--json", path).out)["queries"].values()
    found = [warning for warning in query["warnings"] if warning.startswith("W_ABSENCE")]
    assert bool(found) == is_told
    if found:
        assert "600 s" in found[0]
        assert "EMIT EAGER" in found[0] or "answer: early" in found[0]


def test_embedded_broker_is_refused(embedded_broker: EmbeddedBroker, tmp_path: Path) -> None:
    path = written(tmp_path, "streams: {default: {}}\n")
    inorder("check", "--brokers", embedded_broker.bootstrap, path).refused(
        "is an embedded broker", "leave --brokers out"
    )
