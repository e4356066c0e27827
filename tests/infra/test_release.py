"""Examples: a release has one version, is refused with a remedy, and runs what the README shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from infra import try_wheels
from inorder import __version__
from tests import ROOT
from tests.infra.test_workflow import JOBS

WORKFLOW = ROOT / ".github/workflows/ci.yml"
README = """\
```console
$ inorder audit --lateness 30s telemetry.csv
a line
```

```sh
inorder sample    # writes
inorder dev
pip install inorder
```

```python
print(1)
```

```text
1
```
"""


def release(*words: str) -> str:
    """Return why the script refuses."""
    command = [str(ROOT / "infra/release.sh"), sys.executable, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


def test_version_stands_once() -> None:
    """The changelog has its history, and lock files have versions of others."""
    listed = ("git", "grep", "--name-only", "--word-regexp", "--fixed-strings", __version__)
    places = (":!infra/locks", ":!tests", ":!CHANGELOG.md")
    done = subprocess.run(
        [*listed, "--", *places], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["inorder/__init__.py"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), f"say which: make release VERSION={__version__}"),
        (("v1",), "v1 is not a version like 1.2.3"),
        (("9.9.9",), f"inorder/__init__.py has version {__version__}; set it to 9.9.9, and commit"),
    ],
    ids=["none", "misspelled", "another"],
)
def test_other_version_is_refused(words: tuple[str, ...], reason: str) -> None:
    assert release(*words) == f"no release: {reason}\n"


def test_readme_commands_are_read() -> None:
    steps = [(step.words, step.shown) for step in try_wheels.read_steps(README)]
    assert steps == [
        (("inorder", "--version"), (f"inorder, version {__version__}",)),
        (("inorder", "audit", "--lateness", "30s", "telemetry.csv"), ("a line",)),
        (("inorder", "sample"), ()),
        (("python", "-c", "print(1)\n"), ("1",)),
    ]


def test_readme_names_all_tried_commands() -> None:
    steps = list(try_wheels.read_steps((ROOT / "README.md").read_text()))
    assert {step.words[1] for step in steps} >= {"--version", *try_wheels.TRIED, "-c"}


def test_wheels_for_a_python_are_found(tmp_path: Path) -> None:
    compiled, pure, *others = (
        tmp_path / f"inorder_engine-{name}.whl"
        for name in (
            f"{__version__}-cp312-cp312-linux_x86_64",
            f"{__version__}-py3-none-any",
            f"{__version__}-cp313-cp313-linux_x86_64",
            "0.0.1-py3-none-any",
        )
    )
    for wheel in (compiled, pure, *others):
        wheel.touch()
    assert try_wheels.find_wheels(tmp_path, "3.12") == [compiled, pure]
    assert try_wheels.find_wheels(tmp_path, "3.11") == [pure]


def test_failed_command_is_told(tmp_path: Path) -> None:
    with pytest.raises(try_wheels.Failed, match=r"print\(1\).* ended with 3"):
        try_wheels.run([sys.executable, "-c", "print(1); exit(3)"], tmp_path, 60.0)
    assert try_wheels.run([sys.executable, "-c", "print(2)"], tmp_path, 60.0) == "2\n"


def test_tag_releases_after_all_other_jobs() -> None:
    workflow = yaml.safe_load(WORKFLOW.read_text())
    (tags,) = workflow[True]["push"]["tags"]  # YAML takes `on` for a boolean.
    assert re.fullmatch(tags.replace(".", r"\."), f"v{__version__}")
    job = JOBS["release"]
    assert job["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert {*job["needs"], "release"} == workflow["jobs"].keys()
    runs = [step.get("run", "") for step in job["steps"]]
    assert any(run.startswith("make release VERSION=") for run in runs)
    attested = [step["with"] for step in job["steps"] if "attest" in step.get("uses", "")]
    assert {path for each in attested for path in each.get("subject-path", "").split()} == {
        "dist/*.whl",
        "dist/*.tar.gz",
        "dist/assets/*",
    }
