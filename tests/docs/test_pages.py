"""What mkdocs does not see: links of the documents beside the site, their lengths, and Python that pages show."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BESIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
PAGES = [*(ROOT / name for name in BESIDE), *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


@pytest.mark.parametrize("name", BESIDE)
def test_links_lead_to_files_and_headings(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, heading = target.partition("#")
        page = ROOT / (path or name)
        assert page.is_file(), target
        assert not heading or heading in headings(page), target


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.M)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in found}


@pytest.mark.parametrize(("name", "most"), [("README.md", 150), ("CONTRIBUTING.md", 200)])
def test_what_newcomers_read_is_short(name: str, most: int) -> None:
    assert len((ROOT / name).read_text(encoding="utf-8").splitlines()) <= most


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_python_that_a_page_shows_is_python_and_imports_what_there_is(page: Path) -> None:
    for code in re.findall(
        r"^```python[^\n]*\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.M | re.S
    ):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "trtsmith":
                module = importlib.import_module(node.module or "")
                assert all(hasattr(module, name.name) for name in node.names), code
