"""JOIN: events of two or more streams that belong together, by window or by distance in time."""

from topology.join.config import BadJoin, Field, JoinConfig, Side

__all__ = ["BadJoin", "Field", "JoinConfig", "Side"]
