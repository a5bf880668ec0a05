"""Runs `check` and `rewrite` of one checkout on model after model, in one process: a child of compare_checkouts.py.

    python -S -m checkoutdiff.cli_driver CHECKOUT FOLDER      # jobs on stdin, findings on stdout, a line of JSON each

The command line is what stays the same while modules move: its function is the one that the checkout's pyproject.toml
names. Python runs without `site`, so that no editable installation puts another checkout before this one.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
import sys
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import onnx

from checkoutdiff.graph_text import all_names, describe
from harness.line_child import answer_lines

Main = Callable[[list[str]], int]

OWN = "own"
"""The precision that is none: types stay as the model has them."""


def main(arguments: list[str]) -> int:
    checkout, folder = map(Path, arguments)
    answer_lines(lambda: partial(run_job, entry_point(checkout), folder=folder))
    return 0


def entry_point(checkout: Path) -> Main:
    """The function behind the command `trtsmith`. Raises SystemExit if it belongs to another checkout."""
    text = (checkout / "pyproject.toml").read_text(encoding="utf-8")
    named = re.search(r'^trtsmith\s*=\s*"([\w.]+):(\w+)"', text, re.MULTILINE)
    if named is None:
        raise SystemExit(f"{checkout}/pyproject.toml names no command `trtsmith`")
    module = importlib.import_module(named[1])
    if not Path(str(module.__file__)).resolve().is_relative_to(checkout.resolve()):
        raise SystemExit(f"{named[1]} comes from {module.__file__}, not from {checkout}")
    command: Main = getattr(module, named[2])
    return command


def run_job(command: Main, job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The results of both commands for a model. check, rewrite: see `_ran`; graph: from `describe`, None if none was
    written.

    job: model and inputs (files; inputs None if nothing is frozen), flavour, precision.
    """
    path, output, report = Path(job["model"]), folder / "out.onnx", folder / "report.json"
    for file in (output, report):
        file.unlink(missing_ok=True)
    words = ["--quiet", str(path), "--flavour", job["flavour"]]
    words += [] if job["precision"] == OWN else ["--precision", job["precision"]]
    words += [] if job["inputs"] is None else ["--inputs", job["inputs"]]
    texts = {str(path): "MODEL", str(output): "OUT", str(report): "REPORT", str(job["inputs"]): "INPUTS"}
    found = {
        "check": _ran(command, ["check", *words, "--report", str(report)], texts),
        "rewrite": _ran(command, ["rewrite", *words, "--output", str(output)], texts),
        "records": _report(report),
        "graph": None,
    }
    if output.is_file():
        found["graph"] = describe(onnx.load(output, load_external_data=False), folder, _names(path))
    return found


def _ran(command: Main, words: list[str], texts: dict[str, str]) -> dict[str, Any]:
    """The exit code, and the text on stderr with file names replaced."""
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        try:
            code = command(words)
        except SystemExit as ended:  # of argparse
            code = -1 if not isinstance(ended.code, int) else ended.code
    text = said.getvalue()
    for file, name in texts.items():
        text = text.replace(file, name)
    return {"code": code, "said": text}


def _report(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    report.pop("model", None)
    return report


@lru_cache(maxsize=4)
def _names(path: Path) -> frozenset[str]:
    return all_names(onnx.load(path, load_external_data=False))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
