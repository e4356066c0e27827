"""Provide the programs that enter: each reads a file of records and writes its answers."""
