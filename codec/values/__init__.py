"""Formats of record values and keys, each a module with `decode` (`records.values.Decode`).

A format that can read some fields and skip the others also has `picking`.
"""
