"""Make sinks in tests retry without waiting, and provide places of each kind."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from sinks import attempts
from sinks.files import Form
from tests.sinks.kinds import KINDS, Place, file_place, postgres_place, redis_place

NUMBERS = itertools.count()
SMALL_ROLL_BYTES = 2_000


@pytest.fixture(autouse=True)
def short_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "BACKOFF_S", 0.001)


@pytest.fixture(params=KINDS)
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Place]:
    match request.param:
        case "redis":
            server = request.getfixturevalue("redis_server")
            return lambda: redis_place(server, f"law-{next(NUMBERS)}")
        case "postgres":
            server = request.getfixturevalue("postgres_server")
            return lambda: postgres_place(server, f"law_{next(NUMBERS)}")
        case form:
            return lambda: file_place(
                tmp_path / str(next(NUMBERS)), Form(form), roll_bytes=SMALL_ROLL_BYTES
            )
