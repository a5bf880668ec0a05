"""Where our libraries are."""

from __future__ import annotations

from pathlib import Path

import pytest

from trtsmith.converter.engine import libraries
from trtsmith.converter.model.errors import UsageError


def test_our_libraries_are_there() -> None:
    assert libraries.plugin_library().name == "libtrtsmith_plugins.so"
    assert libraries.plugin_library_v2().name == "libtrtsmith_plugins_v2.so"
    assert libraries.library("trtsmith_host").parent == libraries.FOLDER


def test_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTSMITH_LIBRARY_DIR", str(tmp_path))
    with pytest.raises(UsageError, match=r"libtrtsmith_plugins\.so is not there") as error:
        libraries.plugin_library()
    assert error.value.problems[0].where == str(tmp_path)
    (tmp_path / "libtrtsmith_plugins.so").write_bytes(b"")
    assert libraries.plugin_library() == tmp_path / "libtrtsmith_plugins.so"
