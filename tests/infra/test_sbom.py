"""Examples: the software bill of materials is valid and lists exactly the pinned versions."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from infra.notice import LOCK
from infra.sbom import bom, read
from tests import ROOT
from tests.infra.test_workflow import JOBS, using

ONE = f"""\
aiokafka==0.14.0 \\
    --hash=sha256:{"a" * 64} \\
    --hash=sha256:{"b" * 64}
    # via inorder-engine (pyproject.toml)
async-timeout==5.0.1 ; python_full_version < '3.11.3' \\
    --hash=sha256:{"c" * 64}
    # via
    #   aiokafka
    #   redis
"""


def made(folder: Path, lock: Path = LOCK) -> bytes:
    out = folder / "parts" / "inorder.cdx.json"
    command = [sys.executable, "-m", "infra.sbom", str(out), str(lock)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=60)
    return out.read_bytes()


def test_sbom_matches_lock_file(
    tmp_path: Path,
) -> None:
    assert "-m infra.sbom" in (ROOT / "infra" / "release.sh").read_text()
    content = made(tmp_path)
    assert content == made(tmp_path)
    document: dict[str, Any] = json.loads(content)
    text = LOCK.read_text()
    pins = set(re.findall(r"^([a-z0-9][a-z0-9.-]*)==(\S+)", text, re.M))
    parts = {(part["name"], part["version"]) for part in document["components"]}
    assert parts - {(n, v) for n, v in parts if n == "inorder"} == pins
    digests = {each["content"] for p in document["components"] for each in p.get("hashes", ())}
    assert digests == set(re.findall(r"sha256:([0-9a-f]{64})", text))
    refs = {part["bom-ref"] for part in document["components"]}
    named = {ref for each in document["dependencies"] for ref in each["dependsOn"]}
    assert named == refs  # Each component is a dependency of another one.
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(content.decode())
    assert fault is None, str(fault)[:500]


def test_image_has_its_own_parts(tmp_path: Path) -> None:
    script = ROOT / "infra" / "image.sh"
    found = {}
    for extras in ("", "files"):
        (tmp_path / "lock").write_bytes(
            subprocess.run([script, "locked", extras], check=True, capture_output=True).stdout
        )
        document = json.loads(made(tmp_path, tmp_path / "lock"))
        found[extras] = {part["name"] for part in document["components"]}
    assert found["files"] - found[""] == {"pyarrow"}
    assert (tmp_path / "lock").read_bytes() == LOCK.read_bytes()
    (attested,) = using(JOBS["publish"], "actions/attest-sbom")
    assert (
        f"{attested['with']['sbom-path']} build/release/image.txt"
        in (ROOT / "infra" / "release.sh").read_text()
    )


def test_marked_dependency_is_optional() -> None:
    document = bom(read(ONE))
    needs = {each["ref"]: each["dependsOn"] for each in document["dependencies"]}
    kafka, timeout = "pkg:pypi/aiokafka@0.14.0", "pkg:pypi/async-timeout@5.0.1"
    assert needs[kafka] == [timeout]
    (product,) = [ref for ref in needs if ref.startswith("pkg:pypi/inorder-engine@")]
    assert {kafka, timeout} <= {*needs[product]}  # redis is not pinned: needed by inorder
    marked = next(part for part in document["components"] if part["purl"] == timeout)
    assert (marked["scope"], marked["properties"][0]["value"]) == (
        "optional",
        "python_full_version < '3.11.3'",
    )
