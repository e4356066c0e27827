"""The shell around the core: Kafka, transactions, state and processes (ARCHITECTURE.md)."""

from inorder import pure as pure
