"""Refuses an input topic that is compacted: what a stage holds would be gone from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    ResourceType,
)

from agents.kafka.brokers import Brokers, admin_client

TIMEOUT_S: Final = 5.0


class CompactedInput(Exception):
    """An input topic is compacted; the message says how to alter it."""


def refuse_compacted(brokers: Brokers, inputs: Iterable[str]) -> None:
    """Raise CompactedInput for the first of the inputs that is compacted. A topic whose settings
    the principal may not see is let pass, and so is the embedded broker, which has none. Blocks."""
    if brokers.is_embedded:
        return
    names = [*inputs]
    admin = admin_client(brokers.servers, brokers.security)
    answers = asked_configs(admin, names)
    for name in names:
        if (fault := compaction(name, config_of(answers[name]))) is not None:
            raise CompactedInput(f"{name} {'; '.join(fault)}")


def compaction(name: str, config: Mapping[str, str]) -> tuple[str, str] | None:
    """Return what is wrong with a topic that stages read, and the remedy; None if it is right."""
    if "compact" not in config.get("cleanup.policy", ""):
        return None
    what = (
        "is compacted: of each key only the newest record stays, and a stage that starts again"
        " finds no more what it had held"
    )
    where = f"--entity-type topics --entity-name {name}"
    return what, f"kafka-configs.sh --alter {where} --add-config cleanup.policy=delete"


def asked_configs(
    admin: AdminClient, names: Sequence[str], kind: ResourceType = ResourceType.TOPIC
) -> dict[str, Future[Any]]:
    """Ask for the settings of all of these, and return the answers to come, by name."""
    if not names:
        return {}
    asked = [ConfigResource(kind, name) for name in names]
    answers = admin.describe_configs(asked, request_timeout=TIMEOUT_S)
    return {resource.name: answer for resource, answer in answers.items()}


def config_of(answer: Future[Any] | None) -> dict[str, str]:
    """Return the settings, once they have come; none where they may not be seen. Blocks."""
    try:
        found = {} if answer is None else answer.result(TIMEOUT_S)
    except (KafkaException, TimeoutError):
        return {}
    return {key: entry.value for key, entry in found.items() if entry.value is not None}
