"""Implements the pure core: events, operators and the typed topology file (ARCHITECTURE.md)."""

from inorder import pure as pure
