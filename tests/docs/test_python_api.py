"""Pages of a Python package say what its signatures and docstrings say."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

import trtsmith
from docpages import python_api
from docpages.python_api import PAGES, markdown_of, page_of

SOURCE = '''
from __future__ import annotations
from dataclasses import dataclass

__all__ = ["Done", "Wrong", "__version__", "do", "with_so_many_options"]


@dataclass(frozen=True)
class Done:
    """What came out.

    how:   in which way,
        and why.
    many, few: two at once.
    """

    how: str
    many: int = 3

    @property
    def passed(self) -> bool:
        """Whether it went well."""
        return True

    def to_json(self, *, indent: int | None = None) -> dict[str, str]:
        """As JSON."""

    def _hidden(self) -> None: ...


class Wrong(ValueError):
    """It went wrong."""


def do(path: str, *, times: int = 1) -> Done:
    """Do it, as a_b does.

        do("x")

    >>> do("x").passed
    True
    """


def with_so_many_options(first: str = "", second: str = "", third: str = "", fourth: str = "", fifth: str = "") -> None:
    """All of them."""
'''


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "toy_package.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "toy_package", raising=False)
    return importlib.import_module("toy_package")


def test_a_function_has_its_signature_and_examples(toy: ModuleType) -> None:
    assert page_of(toy, "do") == (
        "```python\ndef do(path: str, *, times: int = 1) -> Done: ...\n```\n\n"
        "Do it, as a\\_b does.\n\n"
        '```python\ndo("x")\n```\n\n'
        '```pycon\n>>> do("x").passed\nTrue\n```'
    )
    lines = page_of(toy, "with_so_many_options").splitlines()
    assert lines[1:4] == ["def with_so_many_options(", '    first: str = "",', '    second: str = "",']
    assert lines[6:8] == ['    fifth: str = "",', ") -> None: ..."]


def test_a_result_has_its_fields_and_public_methods(toy: ModuleType) -> None:
    page = page_of(toy, "Done")
    assert "class Done:\n    how: str\n    many: int\n" in page
    assert "- `how`: in which way, and why.\n- `many`, `few`: two at once." in page
    assert "### Done.passed\n\nWhether it went well." in page
    assert (
        "### Done.to_json\n\n```python\ndef to_json(*, indent: int | None = None) -> dict[str, str]: ...\n```"
        in page
    )
    assert "hidden" not in page


def test_every_public_name_of_trtsmith_is_documented() -> None:
    listed = python_api.pages()["docs/reference/python/results.md"]["python results"]()
    for name in trtsmith.__all__:
        assert name in PAGES or f"## {name}\n" in listed or name == "__version__"
    assert set(PAGES) < set(trtsmith.__all__)


def test_code_in_a_docstring_is_one_block_and_instructions_to_doctest_are_no_text() -> None:
    shown = markdown_of("It does.\n\n    a = 1\n\n    b = 2\n\n>>> f()  # doctest: +SKIP\n3")
    assert shown == "It does.\n\n```python\na = 1\n\nb = 2\n```\n\n```pycon\n>>> f()\n3\n```"
