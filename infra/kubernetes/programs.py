"""Builds the programs of a Kubernetes node from the Go module proxy, once for each user.

All of them are one program, `main.go` of this folder, with a link for each name. The build takes
ten minutes on two idle cores, and 200 MB in the user's cache.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import tarfile
from hashlib import sha256
from pathlib import Path
from typing import Final

from cli.local.lock import exclusive
from infra.helm import BUILD_TIMEOUT_S, KUBERNETES, cache, go
from infra.kubernetes.settings import PAUSE

VERSION: Final = f"{KUBERNETES}.2"
COREDNS: Final = "github.com/coredns/coredns v1.13.1"
NAMES: Final = (
    *("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"),
    *("kubelet", "kube-proxy", "coredns", "kubectl"),
)
ROUTER: Final = "github.com/cloudnativelabs/kube-router/v2"
ROUTER_VERSION: Final = "v2.1.0"
SOURCE: Final = Path(__file__).parent / "main.go"
NO_GO: Final = "go was not found, which builds Kubernetes; install it"


def folder() -> Path:
    """Return the folder of the cache for the programs and the Go module of their build."""
    return cache() / f"kubernetes-{VERSION}"


def missing() -> str | None:
    """Return why the programs cannot be had here; None if they can."""
    if shutil.which("go") or _are_built():
        return None
    return NO_GO


def build_all() -> Path:
    """Return the folder of all programs, and build them if necessary; NotBuilt if that fails."""
    # The lock makes concurrent tests build them only once.
    with exclusive(folder() / "lock", BUILD_TIMEOUT_S):
        if not _are_built():
            _build(folder())
    return folder()


def router() -> Path:
    """Return the path of kube-router, and build it if necessary; NotBuilt if that fails."""
    program = cache() / f"kube-router-{ROUTER_VERSION}"
    with exclusive(program.with_suffix(".lock"), BUILD_TIMEOUT_S):
        if not program.is_file():
            asked = ("mod", "download", "-json", f"{ROUTER}@{ROUTER_VERSION}")
            module = Path(json.loads(go(cache(), *asked))["Dir"])
            # In its own folder, whose go.mod replaces modules; the folder is read-only.
            made = program.with_suffix(".new")
            words = ("build", "-trimpath", "-ldflags=-s -w", "-o", str(made), "./cmd/kube-router")
            go(module, *words, GOFLAGS="-mod=readonly")
            made.replace(program)
    return program


def pause(into: Path) -> None:
    """Build the first program of a pod, and write an archive with its image, named `PAUSE`."""
    program = folder() / "pause"
    if not program.is_file():
        source = str(SOURCE.with_name("pause.go"))
        go(folder(), "build", "-trimpath", "-ldflags=-s -w", "-o", str(program), source)
    layer, settings = io.BytesIO(), {"Entrypoint": ["/pause"], "User": "65535:65535"}
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(program, "pause")
    digest = sha256(layer.getvalue()).hexdigest()
    machine = json.loads(go(folder(), "env", "-json", "GOARCH"))["GOARCH"]
    files = {"type": "layers", "diff_ids": [f"sha256:{digest}"]}
    config = {"architecture": machine, "os": "linux", "config": settings, "rootfs": files}
    image = [{"Config": "config.json", "RepoTags": [PAUSE], "Layers": ["layer.tar"]}]
    with tarfile.open(into, "w") as tar:
        for name, content in (
            ("config.json", json.dumps(config).encode()),
            ("layer.tar", layer.getvalue()),
            ("manifest.json", json.dumps(image).encode()),
        ):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


def _are_built() -> bool:
    source = folder() / "main.go"
    is_same = source.is_file() and source.read_text() == SOURCE.read_text()
    return is_same and all((folder() / name).is_file() for name in NAMES)


def _build(cached: Path) -> None:
    """Build the programs in a Go module of their own.

    Kubernetes' own module refers to its parts as folders in the same repository. The proxy has
    these parts as modules, with version v0.X for v1.X of Kubernetes.
    """
    downloaded = json.loads(go(cached, "mod", "download", "-json", f"k8s.io/kubernetes@v{VERSION}"))
    text = Path(downloaded["GoMod"]).read_text()
    parts = re.findall(r"(k8s\.io/\S+) => \./staging", text)
    needed = re.findall(r"^\t(\S+ v\S+)(?: // indirect)?$", text, re.M)
    lines = ["module node", "go 1.24.0", f"require k8s.io/kubernetes v{VERSION}"]
    lines += [f"require {each}" for each in (*needed, COREDNS)]
    lines += [f"replace {each} => {each} v0{VERSION.removeprefix('1')}" for each in parts]
    (cached / "go.mod").write_text("\n".join(lines))
    (cached / "main.go").unlink(missing_ok=True)
    main = cached / "node.go"
    main.write_text(SOURCE.read_text())
    major, minor, _ = VERSION.split(".")
    named = {"gitVersion": f"v{VERSION}", "gitMajor": major, "gitMinor": minor}
    flags = [f"-X k8s.io/component-base/version.{key}={value}" for key, value in named.items()]
    linked = " ".join(["-ldflags=-s -w", *flags])
    go(cached, "build", "-trimpath", linked, "-o", "node", ".")
    for name in NAMES:
        (cached / name).unlink(missing_ok=True)
        (cached / name).symlink_to("node")
    main.replace(cached / "main.go")
