"""Windows over the events of one stream: config, cells, state by kind, and the operator."""

from topology.window.aggregates.custom import Function
from topology.window.config import Output, WindowConfig

__all__ = ["Function", "Output", "WindowConfig"]
