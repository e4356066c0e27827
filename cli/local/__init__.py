"""Starts brokers on this machine for commands, with their jars and ports."""
