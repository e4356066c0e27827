"""Fetches the schemas of foreign values from a schema registry."""
