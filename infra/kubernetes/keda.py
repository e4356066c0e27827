"""Makes KEDA, which scales pods by lag, from its Go module: images of its programs, and manifests.

The build takes ten minutes on two idle cores. The images have the names of KEDA's own, because its
manifests name them.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from infra.kubernetes import images, programs

MANIFESTS: Final = "config/minimal"
"""KEDA's own manifests, without the webhooks that check objects earlier than the operator does."""
IMAGES: Final = {
    "ghcr.io/kedacore/keda:main": ("keda", "./cmd/operator"),
    "ghcr.io/kedacore/keda-metrics-apiserver:main": ("keda-adapter", "./cmd/adapter"),
}
"""The program of each image, and its package."""


def build_archives(folder: Path) -> Iterator[Path]:
    """Yield an archive of each image; NotBuilt if a program cannot be built."""
    for image, (name, package) in IMAGES.items():
        program = programs.build_command(name, programs.KEDA, package)
        archive = folder / f"{name}.tar"
        images.write(archive, image, program, name)
        yield archive


def render_manifests() -> str:
    """Return KEDA's manifests, which do not pull images that the node has."""
    place = programs.download_module(programs.KEDA) / MANIFESTS
    words = [str(programs.build_all() / "kubectl"), "kustomize", str(place)]
    found = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return found.replace("imagePullPolicy: Always", "imagePullPolicy: IfNotPresent")
