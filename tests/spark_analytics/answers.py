"""That a command is refused in words."""

from __future__ import annotations

from tests.cli.invoking import Answer


def assert_refused(answer: Answer, code: int, *says: str) -> None:
    """Assert that it ended so, in these words and without a stack trace."""
    assert answer.code == code, answer.err
    for each in says:
        assert each in answer.err, answer.err
    assert "Traceback" not in answer.err
    assert "\tat " not in answer.err
