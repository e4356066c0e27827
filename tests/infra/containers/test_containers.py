"""Examples: each named image has a recipe, and the reason is given if no engine can run.

An engine that cannot start leaves nothing behind.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.local.kafka import jars
from infra.containers import base_images, debian, engine, machine, product_image, programs
from infra.containers.command import CommandFailed
from inorder import __version__
from tests import ROOT
from tests.infra.test_compose import DOCKERFILE, SERVICES

FOREIGN_LINES = (
    "deb http://deb.debian.org/debian trixie main\n",
    "deb https://apt.vendor.example/pub/repos/apt bookworm-vendor main\n",
    "deb https://download.vendor.example/linux/debian bookworm stable\n",
    "deb [signed-by=/etc/apt/keyrings/vendor.asc] https://vendor.example/debian bookworm main\n",
    "deb https://packages.vendor.example/apt cloud-bookworm main\n",
    "deb cdrom:[Debian 12]/ bookworm main\n",
)
FOREIGN_STANZAS = (
    "Types: deb\nURIs: https://vendor.example/apt\nSuites: bookworm\nComponents: main\n",
    """Types: deb
URIs: https://vendor.example/debian
Suites: bookworm
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mQ
""",
    """Enabled: no
Types: deb
URIs: http://deb.debian.org/debian
Suites: bookworm
Components: main
""",
)


def test_each_named_image_has_a_recipe() -> None:
    named = {service["image"] for service in SERVICES.values()} - {"inorder"}
    named |= {*re.findall(r"(?m)^ARG PYTHON_\w+=(\S+)$", DOCKERFILE)}
    assert named == base_images.IMAGES.keys()
    for name, recipe in base_images.IMAGES.items():
        text = (base_images.RECIPES / recipe.folder / "Dockerfile").read_text()
        assert re.search(rf"(?m)^FROM {re.escape(recipe.below)}$", text), name


def test_changed_recipe_has_new_digest() -> None:
    digests = {base_images._digest(recipe, "below") for recipe in base_images.IMAGES.values()}
    digests.add(base_images._digest(base_images.Recipe("redis"), "another"))
    digests.add(base_images._digest(base_images.Recipe("redis", version="2"), "below"))
    assert len(digests) == len(base_images.IMAGES) + 2


def test_engine_requires_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert engine.missing() == "a private Docker engine needs Linux and root"


def test_engine_requires_debian(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("INORDER_IMAGES", raising=False)
    for missing in (programs.missing, base_images.missing, debian.missing):
        assert "Debian's apt" in str(missing())
    assert base_images.REMEDY in str(base_images.missing())
    monkeypatch.setenv("INORDER_IMAGES", "pull")
    assert base_images.missing() is None
    assert "mmdebstrap" not in programs._required_programs()


def test_missing_python_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INORDER_IMAGES", raising=False)
    monkeypatch.setattr(debian, "missing", lambda: None)
    monkeypatch.setattr(jars, "missing", lambda: None)
    monkeypatch.setattr(base_images, "python", lambda: None)
    assert "pyenv" in str(base_images.missing())
    assert base_images.REMEDY in str(base_images.missing())


@pytest.mark.parametrize(("tag", "code"), [("py3-none-any", 1), ("cp312-cp312-linux", 0)])
def test_only_compiled_wheels_are_taken(tmp_path: Path, tag: str, code: int) -> None:
    """A stand-in for pip makes the wheels that it should download."""
    pins = f"inorder=={__version__} inorder-engine=={__version__}"
    pip = tmp_path / "pip"
    pip.write_text(
        "#!/bin/bash\n[[ $1 == --version ]] && echo Python 3.12 && exit\n"
        f'[[ "$*" == *" {pins}" ]] || exit 3\n'
        f"touch {tmp_path}/inorder_engine-{__version__}-{tag}.whl\n"
    )
    pip.chmod(0o755)
    words = [str(ROOT / "infra/image.sh"), "build", str(pip), str(tmp_path), "dist"]
    env = {"PATH": os.environ["PATH"], "INORDER_COMPILE": "all"}
    done = subprocess.run(words, env=env, check=False, capture_output=True, text=True)
    assert done.returncode == code
    assert ("make one with infra/compiled_wheels.sh" in done.stderr) == (code == 1)


def test_only_newer_wheels_are_used(tmp_path: Path) -> None:
    (tmp_path / "topology").mkdir()
    source = tmp_path / "topology/__init__.py"
    source.touch()
    dist = tmp_path / "dist"
    dist.mkdir()
    later_s = source.stat().st_mtime + 1
    for name in (
        f"inorder-{__version__}-py3-none-any",
        "inorder_engine-0.0-cp312-cp312-linux_x86_64",
        f"inorder_engine-{__version__}-py3-none-any",
        f"inorder_engine-{__version__}-cp312-cp312-linux_x86_64",
    ):
        assert not product_image.has_wheels(tmp_path)
        (dist / f"{name}.whl").touch()
        os.utime(dist / f"{name}.whl", (later_s, later_s))
    assert product_image.has_wheels(tmp_path)
    os.utime(source, (later_s + 1, later_s + 1))
    assert not product_image.has_wheels(tmp_path)


def test_only_debian_sources_are_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "sources.list.d"
    folder.mkdir()
    own = "deb [arch=amd64] http://proxy.example/deb.debian.org/debian/ bookworm main # ours\n"
    own_stanza = (
        "Types: deb\n# a comment\nURIs: http://mirror.example/debian-security\n"
        "Suites: bookworm-security\nComponents: main contrib\n"
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
    )
    (tmp_path / "sources.list").write_text(f"# main\n{own}{''.join(FOREIGN_LINES)}")
    (folder / "other.list").write_text("".join(FOREIGN_LINES))
    (folder / "both.sources").write_text("\n".join([*FOREIGN_STANZAS, own_stanza]))
    (folder / "other.sources").write_text("\n".join(FOREIGN_STANZAS))
    (folder / "former.sources.disabled").write_text(own_stanza)
    monkeypatch.setattr(debian, "APT", tmp_path)
    monkeypatch.setattr(debian, "codename", lambda: "bookworm")
    assert debian.read_sources() == {"sources.list": own, "both.sources": own_stanza}


def test_failed_start_leaves_no_bridge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []

    def run(*words: str, **_: object) -> str:
        asked.append(words)
        if "address" in words:
            raise CommandFailed("the address is taken")
        return ""

    before = machine.Settings({}, frozenset(), (), frozenset(machine.LEFT))
    monkeypatch.setenv("INORDER_CACHE", str(tmp_path))
    monkeypatch.setattr(engine, "LOCK", tmp_path / "lock")
    monkeypatch.setattr(engine, "NOTE", tmp_path / "note")
    monkeypatch.setattr(engine, "run", run)
    monkeypatch.setattr(programs, "environment", lambda: programs.Environment({}, {}))
    monkeypatch.setattr(machine, "GROUPS", tmp_path)
    monkeypatch.setattr(machine, "read", lambda _: before)
    monkeypatch.setattr(machine, "run_ip", lambda _: [f"1: {engine.BRIDGE}: <UP>"])
    with pytest.raises(CommandFailed), engine.Engine():
        pass
    assert asked[-1] == ("ip", "link", "delete", engine.BRIDGE)


@pytest.mark.parametrize("is_engine", [True, False])
def test_leftover_engine_is_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_engine: bool
) -> None:
    """Another process that now has the engine's id is left alone."""
    note, data, run_folder = tmp_path / "note", tmp_path / "data", tmp_path / "run"
    (run_folder / "exec").mkdir(parents=True)
    monkeypatch.setattr(engine, "NOTE", note)
    monkeypatch.setattr(machine, "GROUPS", tmp_path)
    code = "print(flush=True); input()"
    waiting = [sys.executable, "-c", code, str(data) if is_engine else "other"]
    pipe = subprocess.PIPE
    with subprocess.Popen(waiting, stdin=pipe, stdout=pipe) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()  # The command line can be read by now.
            note.write_text(
                json.dumps({"pid": process.pid, "data": str(data), "run": str(run_folder)})
            )
            engine._end_killed_run()
            assert (process.poll() is not None) == is_engine
        finally:
            process.kill()
    assert not run_folder.exists()
    assert not note.exists()


def test_truncated_note_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(engine, "NOTE", tmp_path / "note")
    monkeypatch.setattr(machine, "GROUPS", tmp_path)
    engine.NOTE.write_text('{"pid": 1')
    engine._end_killed_run()
    assert not engine.NOTE.exists()


def test_files_of_other_engines_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An engine that is installed meanwhile has files in the same folders."""
    left, shared = tmp_path / "left", tmp_path / "shared"
    for folder in (left, shared):
        (folder / "plugins").mkdir(parents=True)
        (folder / machine.KEY).write_text("{}")
    (shared / "daemon.json").write_text("{}")
    (tmp_path / machine.GROUP / "container").mkdir(parents=True)
    monkeypatch.setattr(machine, "LEFT", (left, shared))
    monkeypatch.setattr(machine, "GROUPS", tmp_path)
    machine.remove_leftovers(machine.Settings({}, frozenset(), (), frozenset()))
    assert [*tmp_path.rglob("*")] == [shared, shared / "daemon.json"]
