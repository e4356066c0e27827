"""End to end: the image is built from the Dockerfile as it stands, and runs without any rights."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from infra.containers.command import CommandFailed
from infra.containers.engine import Engine
from inorder import __version__
from tests.waiting import wait_until

pytestmark = [pytest.mark.containers, pytest.mark.timeout(3600)]

CONFINED = (
    *("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--user", "10001:10001"),
    *("--security-opt", "no-new-privileges:true", "--network", "none"),
    *("--tmpfs", "/var/lib/inorder:uid=10001,gid=10001,mode=0700"),
)


ASK = "import urllib.request as web; web.urlopen('http://127.0.0.1:8080/ready')"


def is_ready(engine: Engine, name: str) -> bool:
    try:
        engine.docker("exec", name, "python", "-c", ASK)
    except CommandFailed:
        return False
    return True


def test_image_is_compiled_and_has_no_pip(engine: Engine, image: str) -> None:
    """An unprivileged user runs the image, which is below 600 MiB, and names its commit."""
    code = (
        "from codec import native; from topology.queries.pattern.run import engine;"
        " from importlib.util import find_spec; print(engine.__file__, find_spec('pip'))"
    )
    told = engine.docker("run", "--rm", "--entrypoint", "python", image, "-c", code)
    assert re.fullmatch(r"\S+\.so None\n", told)
    (found,) = json.loads(engine.docker("image", "inspect", image))
    assert found["Config"]["User"] == "10001:10001"
    assert found["Config"]["Labels"]["org.opencontainers.image.version"] == __version__
    revision = found["Config"]["Labels"]["org.opencontainers.image.revision"]
    assert re.fullmatch("[0-9a-f]{40}(-dirty)?", revision)
    assert found["Size"] < 600 << 20


def test_demo_runs_without_rights(engine: Engine, image: str) -> None:
    told = engine.docker("run", "--rm", *CONFINED, image, "demo", "--json")
    assert json.loads(told)["balanced"]


def test_worker_runs_without_rights(engine: Engine, image: str, tmp_path: Path) -> None:
    """A worker becomes ready, and exits with 0 when the engine stops it."""
    file = tmp_path / "topology.yaml"
    file.write_text("streams: {default: {}}\n")
    file.chmod(0o644)
    name = "confined"
    mounted = ("--volume", f"{file}:/etc/inorder/topology.yaml:ro")
    words = ("worker", "--topology=/etc/inorder/topology.yaml", "--brokers=embedded")
    engine.docker("run", "--detach", "--name", name, *CONFINED, *mounted, image, *words,
                  "--http=127.0.0.1:8080")  # fmt: skip
    try:
        wait_until(lambda: is_ready(engine, name), "the worker to be ready")
        status = engine.docker("exec", name, "cat", "/proc/self/status")
        assert re.search(r"(?m)^CapBnd:\s+0{16}$", status)
        assert re.search(r"(?m)^NoNewPrivs:\s+1$", status)
        engine.docker("stop", "--time", "45", name)
        (state,) = json.loads(engine.docker("inspect", "--format", "[{{json .State}}]", name))
        assert state["ExitCode"] == 0
    finally:
        engine.docker("rm", "--force", name)
