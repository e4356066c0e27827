"""Correctness against waiting under disorder, for any engine; README.md has the rules."""
