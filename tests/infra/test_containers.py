"""Examples: each named image has a recipe, and the reason is told where no engine can be had."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from infra.containers import base_images, debian, engine, programs
from tests.infra.test_compose import DOCKERFILE, SERVICES


def test_each_named_image_has_a_recipe() -> None:
    named = {service["image"] for service in SERVICES.values()} - {"inorder"}
    named |= {*re.findall(r"(?m)^ARG PYTHON_\w+=(\S+)$", DOCKERFILE)}
    assert named == base_images.IMAGES.keys()
    for name, recipe in base_images.IMAGES.items():
        text = (base_images.RECIPES / recipe.folder / "Dockerfile").read_text()
        assert re.search(rf"(?m)^FROM {re.escape(recipe.below)}$", text), name


def test_a_changed_recipe_has_another_digest() -> None:
    digests = {base_images._digest(recipe, "below") for recipe in base_images.IMAGES.values()}
    digests.add(base_images._digest(base_images.Recipe("redis"), "another"))
    digests.add(base_images._digest(base_images.Recipe("redis", version="2"), "below"))
    assert len(digests) == len(base_images.IMAGES) + 2


def test_another_user_is_told_of_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert engine.missing() == "a private Docker engine needs Linux and root"


def test_another_system_is_told_of_debian(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("INORDER_IMAGES", raising=False)
    for missing in (programs.missing, base_images.missing, debian.missing):
        assert "Debian's apt" in str(missing())
    monkeypatch.setenv("INORDER_IMAGES", "pull")
    assert base_images.missing() is None
    assert "mmdebstrap" not in programs._wanted()


def test_only_own_sources_are_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "sources.list.d"
    folder.mkdir()
    (tmp_path / "sources.list").write_text("deb http://mirror.example/debian bookworm main\n")
    (folder / "other.list").write_text("deb http://other.example stable main\n")
    (folder / "former.sources.disabled").write_text("Suites: bookworm\n")
    monkeypatch.setattr(debian, "APT", tmp_path)
    monkeypatch.setattr(debian, "codename", lambda: "bookworm")
    assert [*debian.sources()] == ["sources.list"]
