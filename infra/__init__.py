"""Starts servers for tests and benchmarks, and has tools for images, lock files and releases."""
