"""A schema that is none, or whose values would have no bound."""

from __future__ import annotations


class SchemaFault(ValueError):
    """The message continues a sentence whose subject is the schema."""
