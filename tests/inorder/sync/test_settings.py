"""Examples: valid settings of the client, and the errors for invalid ones."""

from __future__ import annotations

from typing import Any

import pytest

from inorder.sync.settings import MAX_SERVERS, SyncSettings

TOO_MANY = range(1, MAX_SERVERS + 2)


def test_addresses_are_split_at_commas() -> None:
    settings = SyncSettings("sync-1:4123, [2001:db8::1]:4124")
    assert settings.addresses() == [("sync-1", 4123), ("2001:db8::1", 4124)]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"servers": ""}, "'' is not the address of a sync server; write HOST:PORT"),
        ({"servers": "host"}, "'host' is not the address"),
        ({"servers": "host:"}, "'host:' is not the address"),
        ({"servers": ":4123"}, "':4123' is not the address"),
        ({"servers": "host:0"}, "'host:0' is not the address"),
        ({"servers": "host:65536"}, "not the address"),
        ({"servers": "host:99999999999"}, "not the address"),
        ({"servers": "host:x"}, "not the address"),
        ({"servers": "::1:4123"}, "not the address"),
        ({"servers": "a:1,,b:1"}, "'' is not the address"),
        ({"servers": "a:1,b:1,a:1"}, "occurs twice in"),
        ({"servers": ",".join(f"a:{port}" for port in TOO_MANY)}, "are too many; name at most 8"),
        ({"rounds": 0}, "rounds is 0; write 1 or more"),
        ({"first_rounds": 0}, "first_rounds is 0"),
        ({"gap_s": -0.1}, "gap_s is -0.1"),
        ({"first_resync_s": 0.5}, "first_resync_s is 0.5; write 1.0 or more"),
        ({"resync_s": 4}, "resync_s is 4; write 5.0 or more"),
        ({"timeout_s": 0}, "timeout_s is 0"),
        ({"timeout_s": float("nan")}, "timeout_s is nan"),
        ({"resync_s": float("inf")}, "resync_s is inf"),
        ({"tries": 0}, "tries is 0"),
        ({"max_skew_ppb": -1}, "max_skew_ppb is -1"),
        ({"granularity_ns": -1}, "granularity_ns is -1"),
        ({"wanted_error_ns": 0}, "wanted_error_ns is 0; write 1 or more"),
    ],
)
def test_bad_setting_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - told below
        SyncSettings(**{"servers": "a:1", **given})
    assert told in str(refused.value)
