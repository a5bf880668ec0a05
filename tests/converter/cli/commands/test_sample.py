"""`trtsmith sample` writes the documents' models, and overwrites no file of the user's."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from tests.converter.cli.commands.running import Cli, refused, snapshot
from train_sample_detector import expected, sample_weights
from trtsmith.converter.samples.sample_models import SAMPLES
from trtsmith.testing import relative_error

FLOAT = onnx.TensorProto.FLOAT

pytestmark = pytest.mark.usefixtures("here")


def test_every_sample_is_listed_and_written_twice_alike(cli: Cli) -> None:
    listed = [line.split()[0] for line in cli("sample").out.splitlines()]
    assert listed == list(SAMPLES) and snapshot() == {}
    assert cli("sample", *listed).code == 0
    first = snapshot()
    assert set(first) == {f"{name}.onnx" for name in listed} | {"inputs.npz", "expected.npz", "photo.jpg"}
    for name in listed:
        assert onnx.load(f"{name}.onnx").graph.node
    assert cli("sample", *listed).code == 0 and snapshot() == first


@pytest.mark.parametrize("name", ["yolo", "yolo_nms", "detr", "classifier"])
def test_networks_are_whole_models_with_weights(cli: Cli, name: str) -> None:
    cli("sample", name)
    model = onnx.load(f"{name}.onnx")
    onnx.checker.check_model(model, full_check=True)
    domains = [opset.domain for opset in model.opset_import]
    assert len(domains) == len(set(domains))
    read = {value for node in model.graph.node for value in node.input}
    weights = [one for one in model.graph.initializer if one.name in read and one.data_type == FLOAT]
    assert len(weights) == sum(one.data_type == FLOAT for one in model.graph.initializer) > 10


def test_a_file_of_the_user_stays(cli: Cli) -> None:
    Path("inputs.npz").write_bytes(b"mine")
    refused(cli("sample mean detector"), 2, "inputs.npz exists with other content")
    assert snapshot() == {"inputs.npz": b"mine"}


def test_a_pipe_of_that_name_is_not_waited_for(cli: Cli) -> None:
    os.mkfifo("mean.onnx")
    refused(cli("sample mean"), 2, "mean.onnx exists with other content")


def test_an_unknown_sample_is_refused_with_those_that_there_are(cli: Cli) -> None:
    refused(cli("sample mean detctor"), 2, "detctor", "fix:      did you mean detector?\n", *SAMPLES)
    assert snapshot() == {}


@pytest.mark.stored_numbers
def test_what_the_sample_expects_is_what_pytorch_computes(cli: Cli) -> None:
    cli("sample detector")
    with np.load("inputs.npz") as inputs, np.load("expected.npz") as outputs:
        computed = expected(sample_weights(Path("detector.onnx")), torch.from_numpy(inputs["images"]))
        assert relative_error(np.asarray(computed), outputs["heatmap"]) < 1e-5
