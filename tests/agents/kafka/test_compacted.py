"""Examples: a compacted input is refused; an input whose settings are hidden is accepted."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from agents.kafka import topics
from agents.kafka.brokers import Brokers
from agents.kafka.topics import CompactedInput, refuse_compacted


def fake_policies(monkeypatch: pytest.MonkeyPatch, policies: dict[str, str | None]) -> None:
    """Let brokers answer with these policies; None hides the settings from the principal."""
    answers: dict[str, Future[Any]] = {name: Future() for name in policies}
    for name, policy in policies.items():
        if policy is None:
            refusal = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
            answers[name].set_exception(KafkaException(refusal))
        else:
            answers[name].set_result({"cleanup.policy": SimpleNamespace(value=policy)})
    monkeypatch.setattr(topics, "asked_configs", lambda *_: answers)


@pytest.mark.parametrize("policy", ["compact", "compact,delete", "delete,compact"])
def test_compacted_input_is_refused(monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    fake_policies(monkeypatch, {"a": "delete", "b": policy})
    with pytest.raises(CompactedInput, match=r"b is compacted.*--entity-name b .*policy=delete"):
        refuse_compacted(Brokers("127.0.0.1:1", is_embedded=False), ["a", "b"])


def test_hidden_settings_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_policies(monkeypatch, {"a": "delete", "b": None})
    refuse_compacted(Brokers("127.0.0.1:1", is_embedded=False), ["a", "b"])


def test_embedded_broker_is_exempt(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_policies(monkeypatch, {"a": "compact"})
    refuse_compacted(Brokers("127.0.0.1:1", is_embedded=True), ["a"])
