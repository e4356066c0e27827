"""The code around the core: Kafka, transactions, state and processes (ARCHITECTURE.md)."""

from inorder import pure as pure
