"""Examples, end to end: the Python of the README, run as it stands there but for its addresses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import inorder.sync
from cli.local.embedded import EmbeddedBroker
from inorder.sync.keys import KeyRing
from tests import ROOT
from tests.inorder.records import read_events
from tests.inorder.sync.key_file import key_table
from tests.inorder.sync.sockets import serving
from tests.services import UniqueName

README = ROOT / "README.md"
KEY = key_table(7, "ab" * 32, "press-7")


def test_the_snippet_of_the_readme(
    embedded_broker: EmbeddedBroker,
    unique_name: UniqueName,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (snippet,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    topic = unique_name("raw")
    embedded_broker.make_topic(topic)
    (tmp_path / "press-7.key").write_text(KEY)
    monkeypatch.chdir(tmp_path)
    keys = KeyRing.parse(KEY)
    with serving(keys) as one, serving(keys) as two:
        for there, here in (
            ("kafka:9092", embedded_broker.bootstrap),
            ("events.raw", topic),
            ("sync-1:4123", one.name),
            ("sync-2:4123", two.name),
        ):
            assert snippet.count(there) == 1
            snippet = snippet.replace(there, here)
        exec(compile(snippet, str(README), "exec"), {})
    (event,) = read_events(embedded_broker.bootstrap, topic, 1)
    assert event.source == "press-7"


def test_what_the_package_gives() -> None:
    from inorder.sync import KeyRing, SyncClient, SyncSettings

    assert {KeyRing, SyncClient, SyncSettings} == {
        getattr(inorder.sync, name) for name in inorder.sync.__all__
    }
