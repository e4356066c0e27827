"""Example: the names that `inorder.sync` gives."""

from __future__ import annotations

import inorder.sync


def test_what_the_package_gives() -> None:
    from inorder.sync import KeyRing, SyncClient, SyncSettings

    assert {KeyRing, SyncClient, SyncSettings} == {
        getattr(inorder.sync, name) for name in inorder.sync.__all__
    }
