"""The conversion as a whole: what it does once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.converter.models import relu
from trtsmith.converter.convert.analysis import AnalysisOptions, analyse
from trtsmith.converter.convert.precision_request import PrecisionRequest
from trtsmith.converter.model.load import load_model
from trtsmith.converter.plugin import creators


def test_plugin_libraries_are_asked_once_what_they_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[Path]] = []

    def asked_for(paths: Iterable[Path]) -> tuple[creators.HeldPlugins, ...]:
        asked.append(list(paths))
        return (creators.HeldPlugins(theirs, (), False, ()),)

    monkeypatch.setattr(creators, "held_plugins", asked_for)
    theirs = tmp_path / "theirs.so"
    options = AnalysisOptions(plugins=(theirs,), precision=PrecisionRequest(precision="fp16"))
    done = analyse(load_model(relu(tmp_path / "m.onnx")), options)
    assert asked == [[theirs]]
    assert done.plan.convertible and done.rewritten.precision is not None  # it was planned twice
