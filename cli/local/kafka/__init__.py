"""Runs a real Kafka on this machine, from Maven jars; it needs Java 17."""

from __future__ import annotations

from cli.local.kafka import jars
from cli.local.kafka.broker import KafkaBroker
from cli.local.kafka.client import create_topic
from cli.local.kafka.jars import missing

__all__ = ["KafkaBroker", "create_topic", "jars", "missing"]
