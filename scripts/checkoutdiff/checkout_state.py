"""Describes the state on which a comparison depends: the checkouts' commits, and the installed packages."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

PACKAGES = ("numpy", "onnx", "onnx-graphsurgeon", "onnxruntime", "protobuf", "torch")
"""What the findings depend on beside the checkout."""


def commit_of(checkout: Path) -> str:
    """The commit, or "" for a checkout with uncommitted changes."""
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
