"""Provides an engine for commands to verify, which onnxruntime runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.converter.cli.commands.running import Cli
from tests.converter.models import inverse
from tests.converter.verify.fake_engine import FakeEngine
from trtsmith.converter.verify import candidates, verify_bundle

SIZES = ((1, 4, 4), (2, 4, 4), (5, 4, 4))


def run_by(fake: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """In the place of the child process that runs engines for `trtsmith verify`."""
    monkeypatch.setattr(verify_bundle, "describe_engine", fake.describe)
    monkeypatch.setattr(candidates, "run_engine", fake.run)
    return fake


@pytest.fixture
def engine(here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """e.plan of m.onnx, the inverse with a batch of 1 to 5."""
    model = inverse(Path("m.onnx"), ("n", 4, 4))
    shapes = "x=1x4x4:2x4x4:5x4x4"
    assert cli(f"convert m.onnx -o e.plan -q --no-verify --shapes {shapes}").code == 0
    return run_by(FakeEngine(model, {"x": SIZES}), monkeypatch)
