"""Examples: changelogs that are refused, and the size limits of topics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.structs import TopicPartition
from msgspec import Raw

from agents.kafka.declared import FRAMING_BYTES, STAMPS_BYTES, list_needed_topics
from agents.state import changelog
from codec.face import NO_RECORD, Unreadable
from tests.kit.topologies import in_code
from topology.config.change import Contract

FORMATS: dict[str, Any] = {
    "none": {"next_offset": 7, "arrival": [1], "arrangement": ["reorder"]},
    "a later one": {"format": changelog.STATE_FORMAT + 1, "what": "nobody knows yet"},
    "none that can be read": ["no", "progress"],
}


@pytest.mark.parametrize("state", FORMATS.values(), ids=FORMATS)
def test_other_format_is_refused(state: Any) -> None:
    says = r"raw/3 has format \d+, and .* reads format 3; go on with .*, or begin anew"
    with pytest.raises(changelog.StateRefused, match=says):
        changelog.read_progress(changelog.encode(state), "raw/3", "begin anew")


def test_key_prefixes_do_not_overlap() -> None:
    prefixes = [changelog.STATE, changelog.PAGE, changelog.RECORD, changelog.PROGRESS.decode()]
    clashes = [(a, b) for a in prefixes for b in prefixes if a != b and a.startswith(b)]
    assert clashes == []


def test_own_format_is_read() -> None:
    contract = Contract("app", "merge", ["raw"], {"merge": 1}, {}, {}, {}, [("raw", 0, 4)])
    progress = changelog.Progress(
        2**62, [1], Raw(changelog.encode(contract)), "", changelog.STATE_FORMAT, 3, 2**64 - 1
    )
    changes = changelog.encode_changes({"progress": progress, "page/7": None})
    assert changes[b"page/7"] is None
    found = changelog.read_progress(changes[b"progress"] or b"", "raw/3", "begin anew")
    assert changelog.contract_of(found) == contract
    assert (found.next_offset, found.digest) == (2**62, 2**64 - 1)


@pytest.mark.parametrize("stages", ["[reorder, merge]", "[reorder+merge]"])
def test_outputs_have_larger_limit(stages: str) -> None:
    topology = in_code(
        f"stages: {stages}\nstreams: {{default: {{input: raw}}}}\n"
        "topics: {max_record_bytes: 1MiB}"
    )
    rooms = {
        spec.name: int(spec.config["max.message.bytes"]) - 2**20
        for spec in list_needed_topics(topology)
        if "max.message.bytes" in spec.config
    }
    assert rooms.pop("raw") == FRAMING_BYTES
    assert set(rooms.values()) == {FRAMING_BYTES + STAMPS_BYTES}
    changelogs = {name for name in rooms if name.endswith(".changelog")}
    assert len(changelogs) == (1 if topology.fused else 2)
    assert ("inorder.reorder-merge.raw.changelog" in changelogs) == topology.fused
    assert {"events.ordered", "events.late"} <= rooms.keys()
    assert ("events.sequenced" in rooms) is not topology.fused


def test_request_topic_has_no_size_limit() -> None:
    topology = in_code("streams: {default: {}}\ntopics: {resend: requests}")
    config = {spec.name: spec.config for spec in list_needed_topics(topology)}
    assert "max.message.bytes" not in config["requests"]


def test_unreadable_log_is_refused() -> None:
    async def bounds(_: TopicPartition) -> tuple[int, int]:
        return 0, 9

    async def stretch(*_: Any) -> AsyncGenerator[tuple[list[Any], int]]:
        yield [Unreadable(3, 8, 0, 1, NO_RECORD)], 9

    logs: Any = SimpleNamespace(bounds=bounds, read_range=stretch)
    with pytest.raises(changelog.StateRefused, match="changes/2 cannot be read at offsets 3 to 8"):
        asyncio.run(
            changelog.read_changelog(logs, TopicPartition("changes", 2), None, lambda *_: None)
        )
