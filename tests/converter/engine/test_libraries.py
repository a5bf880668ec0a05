"""Where our libraries are, and what others' hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from trtsmith.converter.engine import libraries
from trtsmith.converter.model.errors import UsageError
from trtsmith.importers.registry import OPS


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


def test_creators_of_a_library() -> None:
    assert libraries.foreign_creators([libraries.plugin_library()]) == {op.name for op in OPS}
    assert libraries.foreign_creators([]) == frozenset()


def test_no_library(tmp_path: Path) -> None:
    text = tmp_path / "lib.so"
    text.write_text("text")
    for path in (tmp_path, tmp_path / "none.so", text):
        with pytest.raises(UsageError) as error:
            libraries.foreign_creators([path])
        assert str(path) in error.value.problems[0].where
