"""Computes windows over the events of one stream."""

from topology.window.aggregates.custom import Function

__all__ = ["Function"]
