"""What Polygraphy finds of the extension, and the cost of finding it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.polygraphy_registration import PYPROJECT, declared, installed

HEAVY = ("numpy", "onnx", "onnxruntime", "torch", "tensorrt", "tensorrt_rtx", "onnx_graphsurgeon")


def test_the_installation_has_the_entry_point() -> None:
    distribution = metadata.distribution("trtsmith")
    file = next(file for file in distribution.files or () if file.name == "entry_points.txt")
    if Path(str(file.locate())).stat().st_mtime < PYPROJECT.stat().st_mtime and installed() != declared():
        pytest.skip("the editable installation is older than pyproject.toml: `make setup` renews it")
    assert installed() == declared()


def test_the_entry_point_gives_argument_groups() -> None:
    (value,) = declared().values()
    module, _, name = value.partition(":")
    from polygraphy.tools.args.base import BaseArgs

    groups = getattr(importlib.import_module(module), name)()
    assert len(groups) == 4 and all(isinstance(group, BaseArgs) for group in groups)
    assert len({type(group).__name__ for group in groups}) == len(groups)


def test_polygraphy_lists_what_we_add(polygraphy, capsys) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SystemExit):
        polygraphy("run", "--help")
    said = capsys.readouterr().out
    for option in ("--trtsmith-rewrite", "--trtsmith-reference", "--trtsmith ", "--trtsmith-engine PLAN"):
        assert option in said
    assert "Failed to load plugin" not in said


def run(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()[-1].split()


def test_every_tool_of_polygraphy_starts_without_what_only_a_run_needs() -> None:
    """The import of our groups costs no library that Polygraphy itself leaves alone."""
    (value,) = declared().values()
    known = "import sys, polygraphy.tools.registry; before = set(sys.modules); "
    shown = f"print(*[n for n in {HEAVY!r} if n in set(sys.modules) - before], '.')"
    assert run(f"{known}import {value.partition(':')[0]}; {shown}") == ["."]
