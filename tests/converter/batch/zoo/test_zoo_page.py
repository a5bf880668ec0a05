"""The page about zoo files: its examples are readable, and it lists every key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.converter.batch.zoo.zoos import COMMANDS, tasks_of
from trtsmith.converter.batch.zoo.read_zoo import TOP
from trtsmith.converter.batch.zoo.zoo_matrix import NEEDS

PAGE = Path(__file__).resolve().parents[4] / "docs" / "reference" / "zoo-files.md"
TEXT = PAGE.read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```toml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
IN_TABLES = [
    code
    for row in re.findall(
        r"^\|(.*)\|$", TEXT.partition("## Options")[2].partition("## Needs")[0], re.MULTILINE
    )
    for code in re.findall(r"`([a-z0-9-]+ = [^`]+)`", row)
]


@pytest.mark.parametrize("text", SNIPPETS)
def test_snippets_are_read(text: str, tmp_path: Path) -> None:
    model = '[[model]]\npath = "net:make"\n'
    assert tasks_of(tmp_path, text + model if text.startswith("[matrix") else model + text)


@pytest.mark.parametrize(
    "text", [text for text in IN_TABLES if '"default"' not in text and "small" not in text]
)
def test_options_in_tables_are_read(text: str, tmp_path: Path) -> None:
    for name in ("a.so", "b.so", "grid.npy"):
        (tmp_path / name).touch()
    beside = 'precision = "fp16"\n' if text.startswith("keep-fp32") else ""
    (task,) = tasks_of(tmp_path, f'[[model]]\npath = "net:make"\n{beside}{text}\n')
    assert task.words


@pytest.mark.parametrize("text", [text for text in IN_TABLES if '"default"' in text or "small" in text])
def test_axes_in_tables_are_read(text: str, tmp_path: Path) -> None:
    assert len(tasks_of(tmp_path, f'[matrix]\n{text}\n[[model]]\npath = "net:make"\n')) == 2


def test_every_key_is_on_the_page() -> None:
    assert len(SNIPPETS) >= 4 and len(IN_TABLES) >= 8
    keys = {*TOP, *NEEDS, "path", "name", "exclude", "{stem}"}
    assert {key for key in keys if f"`{key}`" not in TEXT and f"[{key}]" not in TEXT} == set()
    refused = {"output", "report", "refused", "save-onnx", "verbose", "timing-cache"}
    assert refused <= COMMANDS.convert.refused.keys()
    assert all(f"`{name}`" in TEXT for name in refused)
