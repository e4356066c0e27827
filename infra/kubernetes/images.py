"""Packs a program that needs no other files as an image, in the form that `docker save` writes."""

from __future__ import annotations

import io
import json
import tarfile
from hashlib import sha256
from pathlib import Path

from infra.helm import cache_folder, run_go

USER = "65532:65532"
"""A user without rights; a number, so that Kubernetes sees that it is not root."""


def write(into: Path, image: str, program: Path, name: str) -> None:
    """Write an archive with one image, which runs the program as `/name`."""
    layer, settings = io.BytesIO(), {"Entrypoint": [f"/{name}"], "User": USER}
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(program, name)
    digest = sha256(layer.getvalue()).hexdigest()
    machine = json.loads(run_go(cache_folder(), "env", "-json", "GOARCH"))["GOARCH"]
    files = {"type": "layers", "diff_ids": [f"sha256:{digest}"]}
    config = {"architecture": machine, "os": "linux", "config": settings, "rootfs": files}
    manifest = [{"Config": "config.json", "RepoTags": [image], "Layers": ["layer.tar"]}]
    with tarfile.open(into, "w") as tar:
        for file, content in (
            ("config.json", json.dumps(config).encode()),
            ("layer.tar", layer.getvalue()),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            entry = tarfile.TarInfo(file)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
