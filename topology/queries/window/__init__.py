"""Computes windows over the events of one stream."""

from topology.queries.window.aggregates.custom import Function

__all__ = ["Function"]
