"""Helpers that commands start on this machine: brokers, their jars and ports."""
