"""Examples: `answer: speculate` is taken by any query. A window, a join or a pattern answers early
as it is, so it then says what it says with `answer: early`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.main import main

LINES = "\n".join(
    f'{{"source": "{source}", "seq": {n}, "ts": {at}, "arrival": {at + delay}, "type": "{kind}"}}'
    for n, (at, delay) in enumerate([(10**9, 0), (2 * 10**9, 4 * 10**9), (3 * 10**9, 10**8)])
    for source, kind in (("a", "A"), ("b", "B"))
)
QUERIES = {
    "window": "window: tumbling 1s, aggregate: {n: count()}",
    "join": "join: interval 1s, sides: {a: {type: A}, b: {type: B}}, outer: left",
    "pattern": 'pattern: "PATTERN SEQ(A a, B b) WITHIN 2 s"',
}


@pytest.mark.parametrize("kind", QUERIES)
def test_it_is_early_where_nothing_runs_ahead(kind: str, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text(LINES + "\n")
    said = []
    for answer in ("early", "speculate, speculate: {share: 50%}"):
        topology = tmp_path / "t.yaml"
        topology.write_text(
            "streams: {default: {clock: {unsynced: trust}}}\n"
            f"correct_for: 10s\nqueries:\n  q: {{{QUERIES[kind]}, answer: {answer}}}\n"
        )
        result = CliRunner().invoke(main, ["replay", "--topology", str(topology), str(events)])
        assert result.exit_code == 0, result.output
        said.append(result.stdout)
    assert '"op"' in said[0]
    assert said[0] == said[1]
