"""Score correctness against waiting under disorder, for any engine; README.md has the rules."""
