"""Keeps what the earlier checkout made of each model, so that only the later one has to run again."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "onnx", "onnx-graphsurgeon", "onnxruntime", "protobuf", "torch")
"""What the findings depend on beside the checkout."""

OWN_FILES = ("cli_driver.py", "graph_text.py", "model_sources.py")


def commit_of(checkout: Path) -> str:
    """The commit, or "" if the checkout has changes that are not in it."""
    asked = ["git", "-C", str(checkout), "status", "--porcelain"]
    if subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip():
        return ""
    asked = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


def versions() -> dict[str, str]:
    found = {"python": sys.version.split()[0]}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "none"
    return found


def key_of(commit: str) -> str:
    """The name of a commit's folder: with other packages, or another description of graphs, it is another."""
    here = Path(__file__).parent
    parts = [json.dumps(versions()), *((here / name).read_text(encoding="utf-8") for name in OWN_FILES)]
    return f"{commit[:12]}-{hashlib.sha256(''.join(parts).encode()).hexdigest()[:8]}"


def stored(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Findings by the names of their jobs. A run that was cut off may have left part of a line, which ends them."""
    if not path.is_file():
        return
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        try:
            for line in lines:
                name, found = json.loads(line)
                yield name, found
        except (EOFError, ValueError):
            print(
                f"note: {path} ends in the middle of a line; what is missing is computed again",
                file=sys.stderr,
            )
