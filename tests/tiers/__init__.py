"""Divides the tests into two tiers: `make test` runs the first, `make test-rest` the rest.

`tests/tiers.toml` names the tier of each test, with the seconds of a measured run. `make tiers`
writes it.
"""
