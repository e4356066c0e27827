"""Examples: one Maven process fetches the jars of several poms, once. Maven is a script here."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.local.maven import Jars, JarsUnavailable, fetch

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>g</groupId><artifactId>{}</artifactId>
</project>"""
MAVEN = """#!/bin/sh
echo "$@" >>"$CALLS"
for word; do
    case $word in -DoutputDirectory=*) out=${word#*=} ;; --file=*) pom=${word#*=} ;; esac
done
for module in $(grep -o '<module>[^<]*' "$pom" | cut -d'>' -f2); do
    name=$(grep -o '<artifactId>[^<]*' "$(dirname "$pom")/$module" | cut -d'>' -f2)
    mkdir "${out%/*}/$name" && touch "${out%/*}/$name/$name.jar"
done
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a stand-in for Maven, and return the file in which it logs each call."""
    program = tmp_path / "bin" / "mvn"
    program.parent.mkdir()
    program.write_text(MAVEN)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("INORDER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "calls"


def jars(folder: Path, name: str, **properties: str) -> Jars:
    pom = folder / f"{name}.xml"
    pom.write_text(POM.format(f"artifact-{name}"))
    return Jars(pom, name, properties)


def test_one_maven_fetches_all_sets(calls: Path, tmp_path: Path) -> None:
    one, two, three = (jars(tmp_path, name, version="1") for name in ("one", "two", "three"))
    assert one.fetch_folder() == tmp_path / "cache/one"
    fetch(one, two, three)
    fetch(two)
    assert [path.name for path in two.fetch_folder().glob("*.jar")] == ["artifact-two.jar"]
    lines = calls.read_text().splitlines()
    assert len(lines) == 2
    assert all(line.endswith(" -Dversion=1") for line in lines)
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == [
        *("jars.lock", "one", "three", "two")
    ]


def test_new_version_replaces_old_jars(calls: Path, tmp_path: Path) -> None:
    jars(tmp_path, "one").fetch_folder()
    assert jars(tmp_path, "one").is_resolved()
    changed = jars(tmp_path, "one", version="2")
    assert not changed.is_resolved()
    (changed.folder() / "old.jar").touch()
    assert [path.name for path in changed.fetch_folder().glob("*.jar")] == ["artifact-one.jar"]


def test_cache_can_be_a_symlink(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Maven resolves `..` through the file system, not in the path's text."""
    (tmp_path / "far/away").mkdir(parents=True)
    (tmp_path / "linked").symlink_to("far/away")
    monkeypatch.setenv("INORDER_CACHE", str(tmp_path / "linked/cache"))
    assert [path.name for path in jars(tmp_path, "one").fetch_folder().glob("*.jar")] == [
        "artifact-one.jar"
    ]


def test_sets_must_agree_on_properties(calls: Path, tmp_path: Path) -> None:
    one, two = jars(tmp_path, "one", version="1"), jars(tmp_path, "two", version="2")
    with pytest.raises(ValueError, match="different values"):
        fetch(one, two)


def test_failed_maven_leaves_no_jars(calls: Path, tmp_path: Path) -> None:
    (tmp_path / "bin/mvn").write_text("#!/bin/sh\necho no such version; exit 1\n")
    with pytest.raises(JarsUnavailable, match=r"one\.xml:\nno such version"):
        jars(tmp_path, "one").fetch_folder()
    assert not jars(tmp_path, "one").is_resolved()
