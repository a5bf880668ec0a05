"""Only an operator's definition names it: no other product code does.

Named by right are: the definitions, the kernels and bindings, and the two lists. Also models/, whose networks are examples
of how operators are used; and Markdown and the records under benchmarks/, which say what was seen of which operator.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from trtsmith.importers.opdef import OpDef
from trtsmith.importers.registry import OPS

ROOT = Path(__file__).resolve().parents[1]
CODE = ("converter", "importers", "plugins_cpp", "scripts", "trtsmith")
OWN = ("importers/ops/", "plugins_cpp/kernels/", "plugins_cpp/ops/")
LISTS = ("importers/registry.py", "plugins_cpp/ops/list.cmake")
RECORDS = "scripts/freshness/record_rows.py"
"""Says which operators a record is of."""
ENDINGS = {".py", ".h", ".hpp", ".cpp", ".cu", ".cuh"}


@cache
def sources(*folders: str) -> Sequence[tuple[str, str]]:
    """(path from the root, text) of every source file."""
    return [
        (path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in ENDINGS and not path.is_symlink()
    ]


def names(op: OpDef, text: str) -> list[str]:
    """Where the text has the plugin's name, or the same in snake_case, small or large: as it is written there."""
    forms = [form for form in (op.name, op.snake_name, op.snake_name.upper()) if form in text]
    return re.findall(rf"(?<![A-Za-z0-9])({'|'.join(forms)})(?![A-Za-z0-9])", text, re.ASCII) if forms else []


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_no_other_product_code_names_the_operator(op: OpDef) -> None:
    found = [
        f"{path}: {name}"
        for path, text in sources(*CODE)
        if not path.startswith(OWN) and path not in (*LISTS, RECORDS)
        for name in names(op, text)
    ]
    assert found == [], "say it in a field of OpDef (importers/opdef.py), and read that"


@pytest.mark.parametrize("path", LISTS)
def test_the_lists_have_every_operator(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    assert [op.name for op in OPS if not names(op, text)] == []
