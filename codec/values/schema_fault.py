"""Defines the error for a schema that is not valid, or whose values would have no bound."""

from __future__ import annotations


class SchemaFault(ValueError):
    """A fault of a schema; the message continues a sentence whose subject is the schema."""
