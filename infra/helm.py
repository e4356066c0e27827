"""Renders the chart for tests, with Helm from `PATH` or built once from the Go module proxy.

The build takes a minute or two on two idle cores, and 30 MB in the user's cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

from cli.local.lock import lock_file

VERSION: Final = "v3.19.0"
KUBERNETES: Final = "1.34"
BUILD_TIMEOUT_S: Final = 3600.0
RENDER_TIMEOUT_S: Final = 60.0
CHART: Final = Path(__file__).parent / "helm" / "inorder"


class HelmFailed(Exception):
    """Helm failed; the message is its output."""


class NotBuilt(Exception):
    """Go failed, or a Go module lacks what was needed; the message says why."""


def missing() -> str | None:
    """Return why Helm cannot be used here; None if it can."""
    if shutil.which("helm") or shutil.which("go") or _find_cached().is_file():
        return None
    return "neither helm nor go (which builds it) was found; install one of them"


def find_program() -> str:
    """Return Helm's path, and build Helm if necessary; raise HelmFailed if that fails."""
    found = shutil.which("helm")
    if found is not None:
        return found
    cached = _find_cached()
    # The lock makes concurrent tests build it only once.
    with lock_file(cached.with_name(f"{cached.name}.lock"), BUILD_TIMEOUT_S):
        if not cached.is_file():
            _build(cached)
    return str(cached)


def render(*options: str, name: str = "test") -> str:
    """Return the chart's manifests as one text; raise HelmFailed with the reason if Helm fails."""
    command = [
        find_program(),
        "template",
        name,
        str(CHART),
        f"--kube-version={KUBERNETES}",
        *options,
    ]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=RENDER_TIMEOUT_S
    )
    if done.returncode:
        raise HelmFailed(done.stderr)
    return done.stdout


def cache_folder() -> Path:
    """Return the folder in which programs that are built for tests are cached."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "inorder"


def _find_cached() -> Path:
    return cache_folder() / f"helm-{VERSION}"


def _build(cached: Path) -> None:
    into = cached.with_name(f"{cached.name}.new")
    package = f"helm.sh/helm/v3/cmd/helm@{VERSION}"
    try:
        run_go(cached.parent, "install", "-trimpath", "-ldflags=-s -w", package, GOBIN=str(into))
    except NotBuilt as error:
        raise HelmFailed(f"Helm could not be built: {error}") from error
    (into / "helm").replace(cached)


def run_go(folder: Path, *words: str, **settings: str) -> str:
    """Run Go in a folder and return its output; `settings` are environment variables."""
    done = subprocess.run(
        ["go", *words],
        check=False,
        cwd=folder,
        env={**os.environ, "GOFLAGS": "-mod=mod", "CGO_ENABLED": "0", **settings},
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
    )
    if done.returncode:
        raise NotBuilt(f"go {words[0]}: {done.stderr}")
    return done.stdout


if __name__ == "__main__":
    with suppress(HelmFailed):  # The tests of Helm report this failure.
        if missing() is None:
            find_program()
