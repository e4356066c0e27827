"""Provide the programs that are compared; each reads a file of records and writes answers."""
