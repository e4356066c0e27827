"""Builds the programs of a Kubernetes node from the Go module proxy, once for each user.

All of them are one program, `main.go` of this folder, with a link for each name. The build takes
ten minutes on two idle cores, and 200 MB in the user's cache.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Final, NamedTuple

from cli.local.lock import lock_file
from infra.helm import BUILD_TIMEOUT_S, KUBERNETES, cache_folder, run_go
from infra.kubernetes import images
from infra.kubernetes.settings import PAUSE


class Module(NamedTuple):
    """A Go module of the proxy."""

    path: str
    version: str


VERSION: Final = f"{KUBERNETES}.2"
COREDNS: Final = "github.com/coredns/coredns v1.13.1"
NAMES: Final = (
    *("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"),
    *("kubelet", "kube-proxy", "coredns", "kubectl"),
)
ROUTER: Final = Module("github.com/cloudnativelabs/kube-router/v2", "v2.1.0")
KEDA: Final = Module("github.com/kedacore/keda/v2", "v2.21.0")
SOURCE: Final = Path(__file__).parent / "main.go"
PAUSE_SOURCE: Final = SOURCE.with_name("pause.go")
NO_GO: Final = "go was not found, which builds Kubernetes; install it"


def folder() -> Path:
    """Return the folder of the cache for the programs and the Go module of their build."""
    return cache_folder() / f"kubernetes-{VERSION}"


def missing() -> str | None:
    """Return why the programs cannot be had here; None if they can."""
    if shutil.which("go") or _are_built():
        return None
    return NO_GO


def build_all() -> Path:
    """Return the folder of all programs, and build them if necessary; NotBuilt if that fails."""
    # The lock makes concurrent tests build them only once.
    with lock_file(folder() / "lock", BUILD_TIMEOUT_S):
        if not _are_built():
            _build(folder())
    return folder()


def build_router() -> Path:
    """Return the path of kube-router, and build it if necessary; NotBuilt if that fails."""
    return build_command("kube-router", ROUTER, "./cmd/kube-router")


def build_command(name: str, module: Module, package: str) -> Path:
    """Return the path of a module's program, built if necessary; NotBuilt if that fails."""
    program = cache_folder() / f"{name}-{module.version}"
    # `with_suffix` would replace the end of the version.
    with lock_file(program.with_name(f"{program.name}.lock"), BUILD_TIMEOUT_S):
        if not program.is_file():
            # In its own folder, whose go.mod replaces modules; the folder is read-only.
            made = program.with_name(f"{program.name}.new")
            words = ("build", "-trimpath", "-ldflags=-s -w", "-o", str(made), package)
            run_go(download_module(module), *words, GOFLAGS="-mod=readonly")
            made.replace(program)
    return program


def download_module(module: Module) -> Path:
    """Return the folder of a module's source, downloaded if necessary; NotBuilt if that fails."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    asked = ("mod", "download", "-json", f"{module.path}@{module.version}")
    return Path(json.loads(run_go(cache_folder(), *asked))["Dir"])


def build_pause_image(into: Path) -> None:
    """Build the first program of a pod, and write an archive with its image, named `PAUSE`."""
    program, copy = folder() / "pause", folder() / "pause.go"
    with lock_file(folder() / "lock", BUILD_TIMEOUT_S):
        if not (program.is_file() and _is_same(copy, PAUSE_SOURCE)):
            words = ("build", "-trimpath", "-ldflags=-s -w", "-o", str(program))
            run_go(folder(), *words, str(PAUSE_SOURCE))
            copy.write_text(PAUSE_SOURCE.read_text())
    images.write(into, PAUSE, program, "pause")


def _are_built() -> bool:
    """Return whether all programs are there, made of the present source and modules."""
    if not _is_same(folder() / "main.go", SOURCE):
        return False
    lines = (folder() / "go.mod").read_text().splitlines()
    needed = {line.partition("//")[0].removeprefix("require").strip() for line in lines}
    return COREDNS in needed and all((folder() / name).is_file() for name in NAMES)


def _is_same(copy: Path, source: Path) -> bool:
    return copy.is_file() and copy.read_text() == source.read_text()


def _build(cached: Path) -> None:
    """Build the programs in a Go module of their own.

    Kubernetes' own module refers to its parts as folders in the same repository. The proxy has
    these parts as modules, with version v0.X for v1.X of Kubernetes.
    """
    (cached / "main.go").unlink(missing_ok=True)  # It says that the rest is whole.
    downloaded = json.loads(
        run_go(cached, "mod", "download", "-json", f"k8s.io/kubernetes@v{VERSION}")
    )
    text = Path(downloaded["GoMod"]).read_text()
    parts = re.findall(r"(k8s\.io/\S+) => \./staging", text)
    needed = re.findall(r"^\t(\S+ v\S+)(?: // indirect)?$", text, re.M)
    lines = ["module node", "go 1.24.0", f"require k8s.io/kubernetes v{VERSION}"]
    lines += [f"require {each}" for each in (*needed, COREDNS)]
    lines += [f"replace {each} => {each} v0{VERSION.removeprefix('1')}" for each in parts]
    (cached / "go.mod").write_text("\n".join(lines))
    main = cached / "node.go"
    main.write_text(SOURCE.read_text())
    major, minor, _ = VERSION.split(".")
    named = {"gitVersion": f"v{VERSION}", "gitMajor": major, "gitMinor": minor}
    flags = [f"-X k8s.io/component-base/version.{key}={value}" for key, value in named.items()]
    linked = " ".join(["-ldflags=-s -w", *flags])
    run_go(cached, "build", "-trimpath", linked, "-o", "node", ".")
    for name in NAMES:
        (cached / name).unlink(missing_ok=True)
        (cached / name).symlink_to("node")
    main.replace(cached / "main.go")
