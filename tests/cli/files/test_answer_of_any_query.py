"""Examples: any query takes `answer: speculate`. A window, a join or a pattern may emit sooner with
it than with `answer: early`; in the end its current results are the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.invoking import inorder, text_file
from tests.sinks.told import standing

LINES = "\n".join(
    f'{{"source": "{source}", "seq": {n}, "ts": {at}, "arrival": {at + delay}, "type": "{kind}"}}'
    for n, (at, delay) in enumerate([(10**9, 0), (2 * 10**9, 4 * 10**9), (3 * 10**9, 10**8)])
    for source, kind in (("a", "A"), ("b", "B"))
)
WHAT = ("kind", "key", "start", "end", "values", "events")
"""What a result says of the events; how sure it is follows from the time at which it was said."""
QUERIES = {
    "window": "window: tumbling 1s, aggregate: {n: count()}",
    "join": "join: interval 1s, sides: {a: {type: A}, b: {type: B}}, outer: left",
    "pattern": 'pattern: "PATTERN SEQ(A a, B b) WITHIN 2 s"',
}


@pytest.mark.parametrize("kind", QUERIES)
def test_its_current_results_are_those_of_early(kind: str, tmp_path: Path) -> None:
    events = text_file(tmp_path / "events.jsonl", LINES + "\n")
    said = []
    for answer in ("early", "speculate, speculate: {share: 50%}"):
        topology = text_file(
            tmp_path / "t.yaml",
            "streams: {default: {clock: {unsynced: trust}}}\n"
            f"correct_for: 10s\nqueries:\n  q: {{{QUERIES[kind]}, answer: {answer}}}\n",
        )
        lines = inorder("replay", "--topology", topology, events).well().lines
        said.append(standing(line for line in lines if "op" in line))
    assert said[0]
    assert said[0].keys() == said[1].keys()
    for id_, line in said[0].items():
        assert {line[name] == said[1][id_][name] for name in WHAT if name in line} == {True}
