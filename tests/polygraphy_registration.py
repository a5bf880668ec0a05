"""Registers the extension of `polygraphy run` as in pyproject.toml, where an older version is installed.

A checkout is installed in editable form, and its metadata is written by the installation: `make setup` renews it. Tests
must not depend on that, nor claim that the installation has what it has not: test_registration.py looks at it as it is.
"""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:  # pytest itself needs it there
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = ROOT / "pyproject.toml"
GROUP = "polygraphy.run.plugins"


def declared() -> dict[str, str]:
    """The entry points of the extension in pyproject.toml."""
    document = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
    points: dict[str, str] = document["project"]["entry-points"][GROUP]
    return points


def installed() -> dict[str, str]:
    """Those of the distribution that is installed; none where trtsmith runs from a checkout alone."""
    found = distribution()
    return (
        {} if found is None else {point.name: point.value for point in found.entry_points.select(group=GROUP)}
    )


def distribution() -> metadata.Distribution | None:
    try:
        return metadata.distribution("trtsmith")
    except metadata.PackageNotFoundError:
        return None


def metadata_folder(folder: Path) -> Path:
    """A folder for Python's path, with metadata that has the declared entry points; it stands before what is installed."""
    info = folder / "trtsmith-0.dist-info"
    info.mkdir(parents=True)
    found = distribution()
    known = None if found is None else found.read_text("METADATA")
    (info / "METADATA").write_text(
        known or "Metadata-Version: 2.1\nName: trtsmith\nVersion: 0\n", encoding="utf-8"
    )
    lines = [f"[{GROUP}]", *(f"{name} = {value}" for name, value in declared().items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
