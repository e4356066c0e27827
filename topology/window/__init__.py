"""Windows over the events of one stream: settings, cells, state by kind, and the operator."""

from topology.window.aggregates.custom import Function

__all__ = ["Function"]
