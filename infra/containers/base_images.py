"""Gives an engine the images that the Dockerfile and the compose file name, without a registry.

Each is made of Debian's packages and of files of this machine, and has the name of the image for
which it stands. A label has the digest of its recipe. So an image is made again if its recipe, the
image below it or the machine's way to the packages changes. With `INORDER_IMAGES=pull` the engine
fetches the real images instead.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from cli.local.kafka import jars
from infra import pythons
from infra.containers import debian, programs
from infra.containers.command import CommandFailed, run
from infra.containers.engine import Engine

RECIPES: Final = Path(__file__).parent / "images"
BASE: Final = "debian:bookworm-slim"
RELEASE: Final = "bookworm"
PYTHON: Final = "3.12"
LABEL: Final = "inorder.recipe"
BUILD_TIMEOUT_S: Final = 1800.0
LIBRARIES: Final = (
    *("ca-certificates", "libbz2-1.0", "libexpat1", "libffi8", "liblzma5", "libncursesw6"),
    *("libreadline8", "libsqlite3-0", "libssl3", "libuuid1", "netbase", "tzdata", "zlib1g"),
)
"""Debian's packages of the libraries that Python's own modules need."""

CERTIFICATES: Final = (Path("/etc/ssl/certs/ca-certificates.crt"),)
PIP: Final = (Path("/etc/pip.conf"), Path.home() / ".config/pip/pip.conf")
REMEDY: Final = "`sudo make containers INORDER_IMAGES=pull` fetches them from a registry"
NOT_COPIED: Final = ("test", "site-packages", "__pycache__", "share", "*.pyc")
ENVIRONMENT: Final = (
    "ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin",
    "ENV LANG=C.UTF-8",
    'CMD ["bash"]',
)


class Recipe(NamedTuple):
    """How an image is made.

    Attributes:
        folder: The folder with its Dockerfile, below `RECIPES`.
        below: The name of the image on which it is built.
        version: The version of the program in it.
    """

    folder: str
    below: str = BASE
    version: str = ""


IMAGES: Final = {
    "python:3.12-slim-bookworm": Recipe("python", version=PYTHON),
    "python:3.12-bookworm": Recipe("python_full", "python:3.12-slim-bookworm"),
    f"apache/kafka:{jars.VERSION}": Recipe("kafka", version=jars.VERSION),
    "redis:7.2-bookworm": Recipe("redis"),
    "prom/prometheus:v3.5.0": Recipe("prometheus"),
    "grafana/grafana:12.1.1": Recipe("grafana"),
}


def missing() -> str | None:
    """Return why the images cannot be had here; None if they can."""
    if programs.is_pulled():
        return None
    reason = debian.missing() or jars.missing()
    if reason is None and python() is None:
        reason = f"no Python {PYTHON} with a folder of its own, as pyenv makes it"
    return reason and f"no base images: {reason}; {REMEDY}"


def make_all(engine: Engine) -> None:
    """Give the engine all images that it lacks; raise CommandFailed if one fails."""
    if programs.is_pulled():
        for name in IMAGES:
            engine.docker("pull", "--quiet", name, timeout_s=BUILD_TIMEOUT_S)
        return
    digests = {BASE: _base_digest()}
    if _read_label(engine, BASE) != digests[BASE]:
        _import_base(engine, digests[BASE])
    for name, recipe in IMAGES.items():
        digests[name] = _digest(recipe, digests[recipe.below])
        if _read_label(engine, name) != digests[name]:
            _build(engine, name, recipe, digests[name])


def python() -> Path | None:
    """Return the folder of a Python of the release, which can be copied to another place."""
    folders = (found.home for found in pythons.find_all(PYTHON))
    return next((folder for folder in folders if folder != Path("/usr")), None)


def _read_label(engine: Engine, name: str) -> str | None:
    """Return the digest of the recipe by which the engine's image of the name was made."""
    template = f'{{{{index .Config.Labels "{LABEL}"}}}}'
    try:
        return engine.docker("image", "inspect", "--format", template, name).strip()
    except CommandFailed:
        return None


def _base_digest() -> str:
    digest = sha256(repr((RELEASE, LIBRARIES, ENVIRONMENT, debian.read_sources())).encode())
    for path, content in _machine_files():
        digest.update(f"{path} ".encode() + content)
    return digest.hexdigest()


def _digest(recipe: Recipe, below: str) -> str:
    digest = sha256(f"{below} {recipe.version}".encode())
    for file in sorted((RECIPES / recipe.folder).iterdir()):
        digest.update(f"{file.name} ".encode() + file.read_bytes())
    return digest.hexdigest()


@cache
def _machine_files() -> tuple[tuple[str, bytes], ...]:
    """Return the files by which an image reaches packages as this machine does, with contents."""
    return tuple(_find_machine_files())


def _find_machine_files() -> Iterator[tuple[str, bytes]]:
    yield "etc/apt/apt.conf.d/50machine", debian.read_settings().encode()
    for file in CERTIFICATES:
        if file.exists():
            yield str(file.relative_to("/")), file.read_bytes()
    settings = next(filter(Path.exists, PIP), None)
    default = f"[global]\ncert = {CERTIFICATES[0]}\n".encode()
    yield "etc/pip.conf", default if settings is None else settings.read_bytes()


def _import_base(engine: Engine, digest: str) -> None:
    """Import a small Debian with the machine's settings."""
    release = debian.Release(RELEASE, programs.folder() / "apt" / RELEASE)
    with TemporaryDirectory() as scratch:
        machine, archive = Path(scratch) / "machine", Path(scratch) / "base.tar"
        for path, content in _machine_files():
            (machine / path).parent.mkdir(parents=True, exist_ok=True)
            (machine / path).write_bytes(content)
        own = machine / "etc/apt/sources.list.d"
        shutil.copytree(release.sources, own)
        run(
            *("mmdebstrap", "--variant=minbase", f"--include={','.join(LIBRARIES)}"),
            *(f"--aptopt={machine / 'etc/apt/apt.conf.d/50machine'}",),
            *("--customize-hook=rm -f $1/etc/apt/sources.list $1/etc/apt/sources.list.d/*",),
            *(f"--customize-hook=cp -r {machine}/. $1/",),
            *(RELEASE, str(archive), *map(str, sorted(own.iterdir()))),
            env=engine.env,
        )
        changes = [
            word for each in (*ENVIRONMENT, f"LABEL {LABEL}={digest}") for word in ("-c", each)
        ]
        engine.docker("import", *changes, str(archive), BASE)


def _build(engine: Engine, name: str, recipe: Recipe, digest: str) -> None:
    """Build an image in the host's network, because its containers have no way out."""
    with TemporaryDirectory() as scratch:
        context = Path(scratch) / "context"
        shutil.copytree(RECIPES / recipe.folder, context)
        if recipe.folder == "kafka":
            shutil.copytree(jars.jars_of_version().fetch_folder(), context / "jars")
            shutil.copy(jars.LOG_SETTINGS, context)
        if recipe.folder == "python":
            _copy_python(context / "python")
        label = f"{LABEL}={digest}"
        words = ("build", "--quiet", "--network", "host", "--label", label, "--tag", name)
        engine.docker(*words, str(context), timeout_s=BUILD_TIMEOUT_S)


def _copy_python(to: Path) -> None:
    """Copy this machine's Python with pip alone, as the official image has it."""
    found = python()
    assert found is not None, "missing() tells of it before"
    shutil.copytree(found, to, symlinks=True, ignore=shutil.ignore_patterns(*NOT_COPIED))
    packages = f"lib/python{PYTHON}/site-packages"
    (to / packages).mkdir()
    for package in (found / packages).glob("pip*"):
        shutil.copytree(package, to / packages / package.name)
    for script in (to / "bin").iterdir():
        if script.is_file() and not script.is_symlink() and script.read_bytes()[:2] == b"#!":
            lines = script.read_bytes().partition(b"\n")
            if b"python" in lines[0]:
                script.write_bytes(f"#!/usr/local/bin/python{PYTHON}\n".encode() + lines[2])
