"""Runs the core (`topology`) on Kafka: clients, transactions, state, processes and HTTP ports."""

from inorder import pure as pure
