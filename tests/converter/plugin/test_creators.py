"""The creators of plugin libraries, by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from trtsmith.converter.engine import libraries
from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.plugin.creators import foreign_creators
from trtsmith.importers.registry import OPS


def test_creators_of_a_library() -> None:
    assert foreign_creators([libraries.plugin_library()]) == {op.name for op in OPS}
    assert foreign_creators([]) == frozenset()


def test_no_library(tmp_path: Path) -> None:
    text = tmp_path / "lib.so"
    text.write_text("text")
    for path in (tmp_path, tmp_path / "none.so", text):
        with pytest.raises(UsageError) as error:
            foreign_creators([path])
        assert str(path) in error.value.problems[0].where
