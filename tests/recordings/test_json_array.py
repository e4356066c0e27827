"""Examples and laws: a JSON array is read like lines with its elements."""

from __future__ import annotations

import io
import json
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordings.json_array import array_elements
from recordings.rows import json_texts, read_rows
from topology.records.reasons import WireFault

ROWS: list[dict[str, Any]] = [
    {"source": "a", "seq": 0, "payload": {"text": 'a "quoted" ]},[{ \\', "deep": [[1, [2]], {}]}},
    {"source": "b", "seq": 1},
]


def texts(content: bytes) -> list[bytes | WireFault]:
    return [text for _, text in json_texts(io.BytesIO(content))]


def read(content: str | bytes) -> list[Any]:
    content = content if isinstance(content, bytes) else content.encode()
    return [json.loads(text) for text in texts(content) if isinstance(text, bytes)]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("before", ["", "\ufeff", "\n \n"])
@pytest.mark.parametrize("after", ["", "\n", "\n\n"])
def test_array_gives_its_elements(indent: int | None, before: str, after: str) -> None:
    assert read(before + json.dumps(ROWS, indent=indent) + after) == ROWS


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ('["a", 1]\n["b", 2]\n', [["a", 1], ["b", 2]]),
        ('[{"a": 1}]\n[{"a": 2}]\n', [[{"a": 1}], [{"a": 2}]]),
        ("[[1, 2], [3, 4]]", [[[1, 2], [3, 4]]]),
    ],
)
def test_array_in_json_lines_is_a_line(content: str, lines: list[Any]) -> None:
    assert read(content) == lines


words = st.text(alphabet='ab"\\[]{},é ', max_size=6)
values = st.integers(0, 99) | words | st.lists(words, max_size=3) | st.just({"a": [{"b": "]"}, []]})


@given(
    st.lists(st.dictionaries(words, values, max_size=3), min_size=1, max_size=4),
    st.sampled_from([None, 1]),
    st.integers(1, 40),
)
def test_law_pieces_do_not_change_array(rows: list[Any], indent: int | None, size: int) -> None:
    content = json.dumps(rows, indent=indent, ensure_ascii=False).encode()
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    found = list(array_elements(pieces, len(content)))
    assert [number for number, _ in found] == list(range(1, len(rows) + 1))
    assert [json.loads(text) for _, text in found if isinstance(text, bytes)] == rows


@given(st.text(alphabet='[]{},:"\\a1 \n').map(lambda text: "[{" + text))
def test_law_no_text_raises(content: str) -> None:
    for row in read_rows("-", io.BytesIO(content.encode())):
        assert row.fault is None or row.fault.reason.startswith("line_")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b'[{"a": 1}, {"a": 2', "the file ends before its array does"),
        (b'[{"a": 1}, {"a": 2}]\n{"a": 3}', "something follows the end of the array"),
    ],
)
def test_incomplete_array_is_a_fault(content: bytes, fault: str) -> None:
    last = texts(content)[-1]
    assert isinstance(last, WireFault)
    assert fault in last.detail
    assert read(content)[0] == {"a": 1}


def test_too_long_element_is_a_fault() -> None:
    element = b'{"a": "' + 40 * b"x" + b'"}'
    pieces = [b"[", element[:20], element[20:], b', {"a": 1}]']
    (_, long), (_, short) = array_elements(pieces, 30)
    assert isinstance(long, WireFault)
    assert long.reason == "line_huge"
    assert short == b'{"a": 1}'


def test_elements_are_read_lazily() -> None:
    def endless() -> Any:
        yield b"["
        while True:
            yield b'{"a": 1},\n'

    assert len(list(islice(array_elements(endless(), 100), 1_000))) == 1_000
