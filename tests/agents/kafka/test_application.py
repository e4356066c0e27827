"""Examples: the environment cannot change what the application says of Faust's settings."""

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
"""The settings that Faust takes from the environment, and under which names."""

GROUP = "inorder.reorder"


def built() -> Application:
    async def build() -> Application:
        return build_app(
            GROUP, Brokers("kafka:9092", is_embedded=False), ["events.raw"], Recorder()
        )

    return asyncio.run(build())


def said(app: faust.App) -> dict[str, str]:
    return {name: repr(getattr(app.conf, name)) for name in READ}


def test_no_variable_of_fausts_changes_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(READ) > 50
    for variable in READ.values():
        monkeypatch.delenv(variable, raising=False)
    expected = said(built())
    for name, variable in READ.items():
        monkeypatch.setenv(variable, "7")
        app = built()
        assert app.conf.id == GROUP
        assert said(app) == expected, name
        monkeypatch.delenv(variable)


async def test_the_first_failure_stands_and_another_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failure, first = Failure(), OSError("first")
    for each in (first, OSError("second"), first):
        failure.set(each)
    assert failure.exception is first
    assert [record.message for record in caplog.records] == [
        "another failure after the first: OSError('second')"
    ]
