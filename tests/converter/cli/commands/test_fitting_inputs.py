"""Files of inputs that do not fit the model: the line of numpy that a message has writes one that does."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.converter.cli.commands.running import Cli, refused, shell
from tests.converter.models import relu, written


@pytest.mark.parametrize("name", ["in put.npz", "in.npy"])
def test_the_line_of_a_file_runs(name: str, here: Path, cli: Cli) -> None:
    model = written(here / "m.onnx", "(float[N,3,8,8] image) => (float[N,3,8,8] y) { y = Relu (image) }")
    array = np.random.default_rng(0).random((1, 8, 8, 3))
    np.save(name, array) if name.endswith(".npy") else np.savez(name, pixels=array)
    command = ("convert -q", model, "-o", "m.plan", "--shapes", "image=1x3x8x8", "--force")
    ran = cli(*command, "--flavour", "tensorrt_rtx", "--target", "sm86", "--inputs", name)
    refused(ran, 2)
    line = re.search(r"fix: +python (-c .*), then --inputs (.*)", ran.err)
    assert line is not None, ran.err
    assert shell(f"cd {here} && {sys.executable} {line[1]}").code == 0
    file = line[2].strip("'")
    assert np.load(file)["image"].shape == (1, 3, 8, 8)
    told = cli("convert -q -o m.plan --flavour tensorrt_rtx --target sm86", model, "--inputs", file)
    refused(told, 2, "is dynamic and has no shapes", "fix:      --shapes image=1x3x8x8\n")
    assert cli(*command, "--flavour", "tensorrt_rtx", "--target", "sm86", "--inputs", file).code == 0


@pytest.mark.parametrize("name", ["out.npz", "out.npy"])
def test_the_line_of_expected_outputs_runs(name: str, here: Path, cli: Cli) -> None:
    relu(here / "m.onnx")
    np.savez("in.npz", x=np.ones((1, 3), np.float32))
    np.save(name, np.ones((1, 3))) if name.endswith(".npy") else np.savez(name, out=np.ones((1, 3)))
    command = ("convert -q m.onnx -o m.plan --flavour tensorrt_rtx --target sm86 --inputs in.npz --expected",)
    ran = cli(*command, name)
    refused(ran, 2)
    line = re.search(r"fix: +python (-c .*), then --expected (.*)", ran.err)
    assert line is not None, ran.err
    assert shell(f"cd {here} && {sys.executable} {line[1]}").code == 0
    assert cli(*command, line[2]).code == 0


def test_the_line_of_polygraphys_json_runs(here: Path, cli: Cli) -> None:
    json = pytest.importorskip("polygraphy.json")
    json.save_json([{"data": np.ones((1, 3))}], "in.json")
    relu(here / "m.onnx")
    assert cli("convert -q m.onnx -o m.plan --flavour tensorrt_rtx --target sm86 --no-verify").code == 0
    ran = cli("verify m.onnx m.plan --load-inputs in.json")
    line = re.search(r"fix: +python (-c .*), then --inputs in.fitting.npz", ran.err)
    assert line is not None and shell(f"cd {here} && {sys.executable} {line[1]}").code == 0, ran
    assert np.load("in.fitting.npz")["x"].dtype == np.float32
