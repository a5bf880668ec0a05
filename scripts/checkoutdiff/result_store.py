"""Keeps what the earlier checkout made of each model, so that only the later one has to run again."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys
import zlib
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import IO, Any

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


def stored(path: Path) -> dict[str, dict[str, Any]]:
    """Findings by the names of their jobs. What a run that was cut off left behind its last whole line is removed."""
    found: dict[str, dict[str, Any]] = {}
    if not path.is_file():
        return found
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            found.update(json.loads(line) for line in lines)
    except (EOFError, OSError, ValueError, zlib.error):
        whole = path.with_suffix(".part")
        with gzip.open(whole, "wt", encoding="utf-8", compresslevel=4) as file:
            for name in found:
                store(file, name, found[name])
        whole.replace(path)
    return found


def store(file: IO[str], name: str, found: Mapping[str, Any]) -> None:
    """Adds what a job found; `stored` reads it."""
    file.write(json.dumps([name, found]) + "\n")
