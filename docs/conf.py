"""Configure Sphinx, which builds the site from these pages (`make docs`).

The root of the sources is the root of the repository, so links are written for readers of the
files. A link to a module in docs/reference leads there. One to a folder leads to its page or its
module, and one to any other file to a copy of it. Docstrings are Markdown, like all prose.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final

from docutils import nodes
from docutils.parsers.rst import Directive
from myst_parser.parsers.sphinx_ import MystParser
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import new_document
from sphinx.util.nodes import make_refnode

from inorder import __version__

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

project = "inorder"
project_copyright = "2026, the inorder authors"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "benchmarks/*.md", "benchmarks/disorder/*.md"]
exclude_patterns = [".*", "build", "dist"]
source_suffix = {".md": "markdown"}
suppress_warnings = [
    "myst.header",  # A page may begin with a heading that GitHub shows small.
    "ref.python",  # Attributes may have the names of built-ins, such as `type`.
]
highlight_language = "none"
myst_heading_anchors = 4

autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"

html_theme = "furo"
html_title = f"inorder {version}"
html_extra_path = ["site"]
html_copy_source = False


class Markdown(Directive):
    """Markdown text within reStructuredText, the only format that autodoc can combine."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        settings = self.state.document.settings
        inner = new_document(self.state.document.current_source or "", settings)
        MystParser().parse("\n".join(self.content), inner)
        return inner.children


SECTIONS = {"Args:", "Attributes:", "Raises:", "Returns:", "Yields:"}


def as_markdown(*event: Any) -> None:
    """Pass a docstring, whose lines are the last argument, to the directive above."""
    lines: list[str] = event[-1]
    found: list[str] = []
    is_section = False
    for line in lines:
        is_section = line in SECTIONS or (is_section and line[:1] in ("", " "))
        if line in SECTIONS:
            found += [f"**{line}**", ""]
        else:
            found.append(re.sub(r"^(\w+): ", r"* `\1`: ", line[4:]) if is_section else line)
    if any(lines):
        lines[:] = [".. markdown::", "", *(f"   {line}" for line in found), ""]


class LinksIntoTheRepository(SphinxPostTransform):
    """A transform of links to other files: to a module's reference, or to a folder's page."""

    default_priority = 8  # It runs before MyST resolves the remaining links.

    def run(self, **kwargs: Any) -> None:
        for node in list(self.document.findall(nodes.Element)):
            link = isinstance(node, (addnodes.pending_xref, addnodes.download_reference))
            if link and node.get("reftype") == "myst" and not node.get("refdomain"):
                self.settle(node)

    def settle(self, node: nodes.Element) -> None:
        here = (ROOT / self.env.docname).parent
        path = (here / node["reftarget"].partition("#")[0]).resolve()
        if not path.exists() or not path.is_relative_to(ROOT) or path == here:
            return  # MyST reports anchors and broken links.
        place = path.relative_to(ROOT)
        if path.is_dir():
            of_code = self.module(place) or self.module(place / "operator")
            self.lead(node, of_code or self.page(place))
        elif path.suffix == ".py" and (target := self.module(place.with_suffix(""))):
            self.lead(node, target)

    def module(self, place: Path) -> tuple[str, str] | None:
        known = self.env.domains.python_domain.modules.get(".".join(place.parts))
        return known and (known.docname, known.node_id)

    def page(self, folder: Path) -> tuple[str, str] | None:
        found = [str(folder / name) for name in ("index", "README")]
        return next(((name, "") for name in found if name in self.env.found_docs), None)

    def lead(self, node: nodes.Element, target: tuple[str, str] | None) -> None:
        """Replace the node by a link to the target, or by its text if there is no target."""
        inner = [child.deepcopy() for child in node.children]
        if target is None:
            node.replace_self(inner)
        else:
            builder = self.app.builder
            node.replace_self(make_refnode(builder, self.env.docname, *target, inner))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("markdown", Markdown)
    app.add_post_transform(LinksIntoTheRepository)
    app.connect("autodoc-process-docstring", as_markdown)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
