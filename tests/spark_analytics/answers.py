"""A check that a command refuses with a message and no stack trace."""

from __future__ import annotations

from tests.cli.invoking import Answer


def assert_refused(answer: Answer, code: int, *says: str) -> None:
    """Assert that the command ended with this code and these words, without a stack trace."""
    assert answer.code == code, answer.err
    for each in says:
        assert each in answer.err, answer.err
    assert "Traceback" not in answer.err
    assert "\tat " not in answer.err
