"""Finds the folders of the package `trtsmith`: one in an installation, three side by side in a checkout."""

from __future__ import annotations

import sys
from pathlib import Path

# Not by an import: the public API stands above every module here.
_SEARCHED = [Path(folder) for folder in sys.modules["trtsmith"].__path__]

PACKAGE = _SEARCHED[0]
"""The folder of `trtsmith` itself."""

PACKAGE_ROOT = PACKAGE.parent
"""The folder that a child process needs on its module path to import `trtsmith`, whatever its working folder is."""

SOURCES = _SEARCHED[-1]
"""The folder that holds `converter`, `importers` and `plugins_cpp`: the package of an installation, a checkout's root."""

PACKAGE_FOLDERS = (PACKAGE, SOURCES / "converter", SOURCES / "importers")
