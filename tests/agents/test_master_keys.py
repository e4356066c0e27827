"""Examples: keys come from a file or the environment, and invalid ones are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.master_keys import KeysRefused, masters_in, signing_key_in

ONE, TWO = "ab" * 16, "cd" * 32
MASTERS, KEY = "INORDER_MASTER_KEYS", "INORDER_SIGNING_KEY"


def test_keys_come_from_variables(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"# the newest first\n{ONE}\n{TWO}\n")
    expected = (bytes.fromhex(ONE), bytes.fromhex(TWO))
    assert masters_in({}) == ()
    assert masters_in({MASTERS: f"{ONE} {TWO}"}) == expected
    assert masters_in({MASTERS + "_FILE": str(path)}) == expected
    path.write_text(f"source {TWO} press 7\n")
    assert signing_key_in({}) is None
    for environment in ({KEY: f"source {TWO} press 7"}, {KEY + "_FILE": str(path)}):
        key = signing_key_in(environment)
        assert key is not None
        assert key.name == "press 7"


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({MASTERS: ONE, MASTERS + "_FILE": "x"}, "are both set"),
        ({MASTERS: ""}, "INORDER_MASTER_KEYS: there is no master key"),
        ({MASTERS: ONE[:8]}, "INORDER_MASTER_KEYS: the master key of line 1 has 4 bytes"),
        ({MASTERS + "_FILE": "/absent/file"}, "INORDER_MASTER_KEYS_FILE: /absent/file: No such"),
        ({KEY: ONE}, "INORDER_SIGNING_KEY: this is not a signing key"),
    ],
)
def test_invalid_key_is_refused(environment: dict[str, str], says: str) -> None:
    read = signing_key_in if KEY in environment else masters_in
    with pytest.raises(KeysRefused, match=says) as refused:
        read(environment)
    assert ONE[:8] not in str(refused.value)


def test_readable_key_file_warns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "masters"
    path.write_text(ONE)
    path.chmod(0o640)
    masters_in({MASTERS + "_FILE": str(path)})
    assert not caplog.text
    path.chmod(0o644)
    masters_in({MASTERS + "_FILE": str(path)})
    warned = f"every user of this machine can read {path}; run chmod 600 on it"
    assert f"{MASTERS}_FILE: {warned}" in caplog.text
    assert ONE not in caplog.text
