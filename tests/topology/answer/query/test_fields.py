"""Examples: the text of a key is the same whether or not it is remembered."""

from __future__ import annotations

from typing import Any

from topology.answer.query import fields
from topology.answer.query.fields import KeyTexts
from topology.answer.query.numbers import scalar_of, text_of

SCALARS = ("a", "", "\x00a", 0, 1, -1, 1 << 80, True, False, 1.0, 2.5, -0.0, "1", "é")


def test_scalar_texts_are_distinct() -> None:
    texts = KeyTexts()
    for _ in range(3):
        for value in SCALARS:
            text = texts.text(value)
            assert text == text_of(value if value != 0 or value is False else 0)
            assert scalar_of(text_of(value)) == value
    truth, one = True, 1
    assert texts.text(truth) != texts.text(one) == texts.text(1.0)


def test_unusable_key_has_no_text() -> None:
    texts = KeyTexts()
    merged = (1e20, -1e19, 2.0**64, -(2.0**63))
    """JSON integers that are too long to differ from their neighbours are read as these."""
    nothings: tuple[Any, ...] = (
        *(None, [], {}, float("nan"), 10**400, "\ud800", "x" * 1_025),
        *merged,
    )
    for value in nothings:
        assert texts.text(value) is None
        assert texts.text(value) is None


def test_remembered_texts_are_bounded() -> None:
    texts = KeyTexts()
    for number in range(fields.MAX_TEXTS + 10):
        assert texts.text(number) == text_of(number)
    assert len(texts._texts) == 10
    assert texts.text(3) == text_of(3)
