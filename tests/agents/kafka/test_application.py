"""Examples: the environment cannot change Faust's settings, and the first failure is kept."""

from __future__ import annotations

import asyncio

import faust
import pytest
from faust.types.settings import Settings

from agents.kafka.application import Application, build_app
from agents.kafka.brokers import Brokers
from agents.kafka.transport import Failure
from tests.agents.recorder import Recorder

READ = {
    name: each.env_name
    for name, each in Settings.SETTINGS.items()
    if each.env_name and not each.version_deprecated
}
"""Settings that Faust reads from the environment, with the names of their variables."""

GROUP = "inorder.reorder"


def new_app() -> Application:
    async def build() -> Application:
        return build_app(
            GROUP, Brokers("kafka:9092", is_embedded=False), ["events.raw"], Recorder()
        )

    return asyncio.run(build())


def faust_settings(app: faust.App) -> dict[str, str]:
    """Return the values of the settings that Faust could read from the environment."""
    return {name: repr(getattr(app.conf, name)) for name in READ}


def test_faust_variables_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(READ) > 50
    for variable in READ.values():
        monkeypatch.delenv(variable, raising=False)
    expected = faust_settings(new_app())
    for name, variable in READ.items():
        monkeypatch.setenv(variable, "7")
        app = new_app()
        assert app.conf.id == GROUP
        assert faust_settings(app) == expected, name
        monkeypatch.delenv(variable)


async def test_first_failure_is_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failure, first = Failure(), OSError("first")
    for each in (first, OSError("second"), first):
        failure.set(each)
    assert failure.exception is first
    assert [record.message for record in caplog.records] == [
        "another failure after the first: OSError('second')"
    ]
