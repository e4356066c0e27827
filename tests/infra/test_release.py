"""Examples: a release has one version, is refused with a remedy, and runs what the README shows."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import tomllib
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


CHANGELOG = """\
## [Unreleased]

## [1.2.3] - 2026-11-29

- An entry.
"""


def release(*words: str, tree: Path = ROOT) -> str:
    """Return why the script refuses."""
    command = [str(tree / "infra/release.sh"), sys.executable, *words]
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


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a small repository of version 1.2.3, whose release nothing forbids yet."""
    (tmp_path / "infra").mkdir()
    shutil.copy2(ROOT / "infra/release.sh", tmp_path / "infra")
    (tmp_path / "inorder").mkdir()
    (tmp_path / "inorder/__init__.py").write_text('__version__ = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    (tmp_path / ".gitignore").write_text("__pycache__\n")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(tree: Path, *words: str) -> None:
    names = ("-c", "user.name=Somebody", "-c", "user.email=somebody@inorder.example")
    subprocess.run(["git", *names, *words], cwd=tree, check=True, timeout=60)


def commit(tree: Path) -> None:
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--allow-empty", "--message", "Change it")


def test_changed_tree_is_refused(tree: Path) -> None:
    (tree / "new").touch()
    assert "the tree is not clean" in release("1.2.3", tree=tree)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("[1.2.3] - 2026-11-29", "[1.2.3]", "no heading '## [1.2.3] - YYYY-MM-DD'"),
        ("[Unreleased]\n", "[Unreleased]\n\n- More.\n", "CHANGELOG.md has unreleased entries"),
    ],
    ids=["heading", "entries"],
)
def test_unfit_changelog_is_refused(tree: Path, old: str, new: str, reason: str) -> None:
    (tree / "CHANGELOG.md").write_text(CHANGELOG.replace(old, new))
    commit(tree)
    assert reason in release("1.2.3", tree=tree)


def test_tag_of_other_commit_is_refused(tree: Path) -> None:
    git(tree, "tag", "v1.2.3")
    commit(tree)
    assert release("1.2.3", tree=tree) == "no release: v1.2.3 is another commit already\n"


def test_links_lead_to_the_version() -> None:
    text = "![a b](docs/a.svg) [c](d.md#e), [f](https://g/h) `[i]`\n"
    script = str(ROOT / "infra/absolute_links.sh")
    done = subprocess.run([script, "1.2.3"], input=text, capture_output=True, text=True, check=True)
    source = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Source"]
    picture, page = f"{source}/raw/v1.2.3/docs/a.svg", f"{source}/blob/v1.2.3/d.md#e"
    assert done.stdout == f"![a b]({picture}) [c]({page}), [f](https://g/h) `[i]`\n"


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


def test_wheels_for_a_python_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder has wheels for several Pythons and machines, and of other versions."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    compiled, pure, *others = (
        tmp_path / f"inorder_engine-{name}.whl"
        for name in (
            f"{__version__}-cp312-cp312-manylinux_2_28_x86_64",
            f"{__version__}-py3-none-any",
            f"{__version__}-cp312-cp312-manylinux_2_28_aarch64",
            f"{__version__}-cp313-cp313-manylinux_2_28_x86_64",
            "0.0.1-py3-none-any",
        )
    )
    for wheel in (compiled, pure, *others):
        wheel.touch()
    assert try_wheels.find_wheels(tmp_path, "3.12") == [compiled, pure]
    assert try_wheels.find_wheels(tmp_path, "3.11") == [pure]


def test_tag_releases_after_all_other_jobs() -> None:
    workflow = yaml.safe_load(WORKFLOW.read_text())
    (tags,) = workflow[True]["push"]["tags"]  # YAML takes `on` for a boolean.
    assert re.fullmatch(tags.replace(".", r"\."), f"v{__version__}")
    job = JOBS["release"]
    assert job["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert {*job["needs"], "release", "publish"} == workflow["jobs"].keys()
    runs = [step.get("run", "") for step in job["steps"]]
    assert any(run.startswith("make release VERSION=") for run in runs)


def test_job_with_rights_runs_no_build() -> None:
    """Only `publish` may write; it has no checkout, and attests all that it publishes."""
    assert [name for name, job in JOBS.items() if "permissions" in job] == ["publish"]
    steps = JOBS["publish"]["steps"]
    assert JOBS["publish"]["needs"] == "release"
    assert not any("checkout" in step.get("uses", "") for step in steps)
    attested = [step["with"] for step in steps if "attest" in step.get("uses", "")]
    paths = {path for each in attested for path in each.get("subject-path", "").split()}
    assert paths == {"dist/*.whl", "dist/*.tar.gz", "dist/assets/*"}
    assert [each["subject-name"] for each in attested if "subject-name" in each]
