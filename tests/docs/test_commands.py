"""Every command on a page runs here with the shown output, or states what it needs."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.docs.blocks import Block, Command, PageError, blocks_of, files_of, shows
from tests.docs.samples import write_yours
from tests.polygraphy_registration import declared, installed, metadata_folder
from trtsmith.converter.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
HAS_TRITON = importlib.util.find_spec("triton") is not None
WITH_YOURS = [ROOT / "docs/guides/plugin-libraries.md", ROOT / "docs/guides/triton-kernels.md"]
"""Pages on libraries and packages that the reader has: no command of theirs brings them."""
WALK = [
    ROOT / name
    for name in (
        "README.md",
        "docs/quickstart.md",
        "docs/guides/your-own-operator.md",
        "docs/reference/batch-results.md",
    )
]
"""What a newcomer reads, one page after another in one folder."""
ALONE = [page for page in PAGES if page not in WALK[2:]]
"""Pages that begin in a fresh folder. The last two of the walk take long, and are run once."""
NAMES = [str(page.relative_to(ROOT)) for page in ALONE]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh folder, in which the commands of one page run one after another."""
    folder = tmp_path / "work"
    folder.mkdir()
    programs = tmp_path / "programs"
    programs.mkdir()
    script = programs / "trtsmith"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m trtsmith "$@"\n')
    script.chmod(0o755)
    monkeypatch.chdir(folder)
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    if installed() != declared():  # by an installation that is older than pyproject.toml
        path.insert(0, str(metadata_folder(tmp_path / "metadata")))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    folders = [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(folders))
    return folder


@pytest.mark.parametrize("page", ALONE, ids=NAMES)
def test_commands_do_what_the_page_shows(page: Path, workplace: Path) -> None:
    follow(page, workplace)


def test_a_newcomer_goes_from_page_to_page(workplace: Path) -> None:
    for page in WALK:
        follow(page, workplace)


def follow(page: Path, workplace: Path) -> None:
    """Run the page's commands and compare their output, codes and pictures with the page's."""
    if page in WITH_YOURS:
        write_yours(workplace)
    for name, text in files_of(page).items():
        (workplace / name).write_text(text, encoding="utf-8")
    for block in blocks_of(page):
        if block.need and not (block.need == "triton" and HAS_TRITON):
            continue
        for command in block.commands:
            code, output = run(command.text)
            where = f"{page.relative_to(ROOT)}:{command.line}: {command.text}"
            assert code == command.code, f"{where}\nexit code {code}\n{output}"
            shown = "\n".join(command.output)
            assert shows(command.output, output), f"{where}\n--- shown\n{shown}\n--- real\n{output}"
    for picture in (ROOT / "docs" / "images").iterdir():
        if (workplace / picture.name).exists():
            assert difference(picture, workplace / picture.name) < 2  # of 255: fonts and JPEG's rounding


def difference(one: Path, other: Path) -> float:
    """The mean absolute difference of the pixels of two pictures of one size."""
    shown, drawn = (np.asarray(Image.open(path).convert("RGB"), np.float32) for path in (one, other))
    return float(np.abs(shown - drawn).mean())


def run(text: str) -> tuple[int, str]:
    """Exit code and output of a command. Ours and Python files run in this process, where PyTorch is imported once."""
    words = shlex.split(text)
    ours = words[0] == "trtsmith" or (words[0] == "python" and words[1].endswith(".py") and len(words) == 2)
    if not ours or set(text) & set("|<>&;`$"):
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
        done = subprocess.run(["bash", "-c", text], text=True, **streams)
        return done.returncode, done.stdout
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            code = main(words[1:]) if words[0] == "trtsmith" else run_file(words[1])
        except SystemExit as exit_:
            code = int(exit_.code or 0)
    return code, output.getvalue()


def run_file(name: str) -> int:
    runpy.run_path(name, run_name="__main__")
    return 0


def page_of(tmp_path: Path, text: str) -> list[Block]:
    page = tmp_path / "page.md"
    page.write_text(text)
    return blocks_of(page)


def test_commands_outputs_codes_and_needs_are_read(tmp_path: Path) -> None:
    text = "A\n\n```console\n$ a \\\n    b\nout\n...\n$ c\n$ echo $?\n3\n```\n"
    text += "\n<!-- needs: gpu -->\n\n```console\n$ d\n```\n"
    run_here, marked = page_of(tmp_path, text)
    assert run_here.commands == (Command(4, "a b", ["out", "..."]), Command(8, "c", [], 3))
    assert (run_here.need, marked.need) == ("", "gpu")


@pytest.mark.parametrize(
    "text",
    [
        "    trtsmith check model.onnx\n",
        "```\n$ trtsmith check model.onnx\n```\n",
        "```text\npip install .\n```\n",
        "```console\ntrtsmith check model.onnx\n```\n",
        "<!-- needs: luck -->\n```console\n$ true\n```\n",
    ],
)
def test_commands_that_no_test_would_see_are_an_error(text: str, tmp_path: Path) -> None:
    with pytest.raises(PageError):
        page_of(tmp_path, text)


@pytest.mark.parametrize(
    ("page", "real", "same"),
    [
        ([], "anything\n", True),
        (["a 1.5 MiB", "b"], "a 12.25 MiB\nb\n", True),
        (["a", "...", "d"], "a\nb\nc\nd\n", True),
        (["...", "c"], "a\nb\nc\n", True),
        (["a", "..."], "a\n", True),
        (["a  3e-05  x"], "a   2.5e-07 x\n", True),
        (["verdict: agree: ... (inputs: a)"], "verdict: agree: 3e-05; c (inputs: a)\n", True),
        (["verdict: agree: ..."], "verdict: disagree: 3e-05\n", False),
        (["a ..."], "a b\nc\n", False),
        (["a"], "a\nb\n", False),
        (["a agrees"], "a disagrees\n", False),
        (["..."], "", True),
    ],
)
def test_shown_output_is_compared(page: list[str], real: str, same: bool) -> None:
    assert shows(page, real) is same
