"""Check that every link within the site has a target: `python docs/links.py build/site`.

Sphinx checks the links of the pages. This checks the finished HTML, including links that extensions
write. Links to other sites are not followed.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page, and the anchors that can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value}
        self.links |= {found[name] for name in ("href", "src") if name in found}
        self.anchors |= {found["id"]} if "id" in found else set()


def broken(site: Path) -> list[str]:
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        for link in sorted(page.links):
            to = urlsplit(link)
            target = (path.parent / unquote(to.path)).resolve() if to.path else path
            is_here = not to.scheme and not to.netloc
            known = pages[target].anchors if target in pages else {unquote(to.fragment)}
            if is_here and not (target.exists() and unquote(to.fragment) in known):
                found.append(f"{path.relative_to(site.resolve())}: {link}")
    return found


if __name__ == "__main__":
    lost = broken(Path(sys.argv[1]))
    sys.exit("\n".join(["these links lead nowhere:", *lost]) if lost else 0)
