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


@pytest.mark.parametrize("layout", [(0, 1, 2, 3), (0, 2, 3, 1)])
def test_the_line_of_a_fixed_batch_runs(layout: tuple[int, ...], here: Path, cli: Cli) -> None:
    model = written(here / "m.onnx", "(float[2,3,8,9] image) => (float[2,3,8,9] y) { y = Relu (image) }")
    images = np.random.default_rng(0).random((6, 3, 8, 9), np.float32)
    np.savez("in put.npz", image=images.transpose(layout))
    command = ("convert -q -o m.plan --flavour tensorrt_rtx --target sm86", model, "--inputs")
    ran = cli(*command, "in put.npz")
    refused(
        ran,
        2,
        "the model has a fixed batch of 2: export it with",
        "dynamic_axes={'image': {0: 'batch'}}); or",
    )
    line = re.search(r"one batch at a time: python (-c .*), then --inputs (.*)", ran.err)
    assert line is not None and shell(f"cd {here} && {sys.executable} {line[1]}").code == 0, ran
    assert line[2] == "'in put.0.npz'"
    for first in (0, 2, 4):
        np.testing.assert_array_equal(np.load(f"in put.{first}.npz")["image"], images[first : first + 2])
    assert cli(*command, "in put.0.npz").code == 0


def test_the_line_of_calibration_samples_runs(here: Path, cli: Cli) -> None:
    model = written(here / "m.onnx", "(float[1,3,8,9] image) => (float[1,3,8,9] y) { y = Relu (image) }")
    np.savez("in.npz", image=np.random.default_rng(0).random((6, 8, 9, 3), np.float32))
    command = (
        "convert -q -o m.plan --flavour tensorrt_rtx --target sm86 --precision int8",
        model,
        "--calibration",
    )
    ran = cli(*command, "in.npz")
    line = re.search(r"fix: +python (-c .*), then --calibration in.fitting.npz", ran.err)
    assert line is not None and shell(f"cd {here} && {sys.executable} {line[1]}").code == 0, ran
    assert np.load("in.fitting.npz")["image"].shape == (6, 3, 8, 9)
    assert "--calibration" not in cli(*command, "in.fitting.npz").err
