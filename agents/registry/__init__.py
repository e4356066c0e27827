"""Schemas of foreign values, from a schema registry."""
