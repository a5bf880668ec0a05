"""Provides Polygraphy's own command in this process, with our extension registered as in pyproject.toml."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from tests.converter.cli.commands.running import Ran
from tests.converter.models import inverse
from tests.converter.polygraphy_extension.polygraphy_runs import Polygraphy
from tests.polygraphy_registration import declared, installed, metadata_folder


@pytest.fixture
def polygraphy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Polygraphy:
    """Runs `polygraphy ARGUMENTS` in a folder of its own."""
    from polygraphy.tools import main

    if installed() != declared():
        monkeypatch.syspath_prepend(metadata_folder(tmp_path / "metadata"))
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def run(*arguments: object) -> Ran:
        capsys.readouterr()
        words = [str(argument) for argument in arguments]
        monkeypatch.setattr("sys.argv", ["polygraphy", *words])
        with warnings.catch_warnings():  # of Polygraphy's, about how it asks for entry points
            warnings.simplefilter("ignore", DeprecationWarning)
            code = main(words)
        return Ran(int(code or 0), *capsys.readouterr())

    return run


@pytest.fixture
def model(polygraphy: Polygraphy) -> Path:
    """com.microsoft::Inverse of a batch of any size, which onnxruntime has, and TensorRT has not."""
    del polygraphy  # whose folder it lies in
    return inverse(Path("m.onnx"), ("n", 4, 4))


@pytest.fixture
def inputs(polygraphy: Polygraphy) -> Path:
    """Two iterations of matrices that are far from singular, as Polygraphy keeps inputs."""
    from polygraphy.json import save_json

    rng = np.random.default_rng(0)
    matrices = [(3 * np.eye(4) + rng.standard_normal((n, 4, 4)) / 4).astype(np.float32) for n in (1, 3)]
    save_json([{"x": x} for x in matrices], "in.json")
    return Path("in.json")
