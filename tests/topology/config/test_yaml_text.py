"""Examples: texts that expand to far more than their length, and their errors."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.cli.invoking import inorder
from topology.config import TopologyError, parse
from topology.config.yaml_text import MAX_MERGED, load

AT_ONCE_S = 2.0

MERGES = "a0: &a0 {k0: 1}\n" + "".join(
    f"a{n}: &a{n}\n  <<: [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)
ALIASES = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
MINUTES = "1:" + "59:" * 200_000 + "5"


def waits(length: str) -> str:
    return f"streams: {{s: {{reorder: {{rule: fixed, max_wait: {length}}}}}}}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(MERGES + "streams: {s: {}}\n", f"more than {MAX_MERGED} keys", id="merges"),
        pytest.param(ALIASES + "streams: {s: {}}\n", "a11", id="aliases"),
        pytest.param("streams: &s {a: *s}", "there is no such key", id="an alias of itself"),
        pytest.param(waits("12:30:45"), "`12:30:45` is not a number with a unit", id="minutes"),
        pytest.param(
            waits("1:30.5"), "`1:30.5` is not a number with a unit", id="minutes with a part"
        ),
        pytest.param(waits(MINUTES), "streams.s.reorder.max_wait", id="many minutes"),
        pytest.param(waits(f"!!int {MINUTES}"), "cannot be read", id="called a number"),
        pytest.param(waits("0x" + "f" * 900_000), "streams.s.reorder.max_wait", id="a huge number"),
    ],
)
def test_costly_text_is_refused_at_once(text: str, said: str) -> None:
    began_s = time.process_time()
    with pytest.raises(TopologyError) as refused:
        parse(text)
    assert time.process_time() - began_s < AT_ONCE_S
    assert said in str(refused.value)
    assert len(str(refused.value)) < 10_000


def test_unreadable_functions_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("streams: {s: {}}\nfunctions: /proc/self/mem\n")
    refused = inorder("check", str(tmp_path / "t.yaml"))
    assert refused.code == 2
    assert "/proc/self/mem cannot be read" in refused.err


def test_merge_keys_are_applied() -> None:
    text = "a: &a {x: 1, y: 2}\nb: &b {<<: *a, z: 3}\nc: {<<: [*a, *b], x: 4}\n"
    assert load(text).value["c"] == {"x": 4, "y": 2, "z": 3}
