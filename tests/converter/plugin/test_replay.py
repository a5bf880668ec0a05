"""A saved plugin node: the kernel's case from its folder, refusals, and the verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx import helper as oh

from tests.conftest import gpu_count
from tests.converter.models import written
from tests.converter.plugin.fixtures import library
from tests.converter.plugin.saved import PLUGIN, X, Y, folder
from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.plugin import replay as module
from trtsmith.converter.plugin.calls import KernelCall, Kernels
from trtsmith.converter.plugin.host.host_worker import LibraryWorker, WorkerDiedError
from trtsmith.converter.plugin.replay import read_case, replay


def test_the_case_is_the_node_of_the_file(tmp_path: Path) -> None:
    case = read_case(folder(tmp_path / "a"))
    assert (case.plugin, dict(case.fields), case.tolerance) == ("MatrixInverse", {}, (1e-4,))
    assert np.array_equal(case.inputs[0], X) and case.expected[0].dtype == np.float64
    np.testing.assert_array_equal(case.expected[0], Y.astype(np.float64))


def test_casts_around_the_node_give_its_own_types(tmp_path: Path) -> None:
    case = read_case(folder(tmp_path / "a", dtype=TensorProto.BFLOAT16))
    assert case.inputs[0].dtype == ml_dtypes.bfloat16 and case.tolerance == (1.6e-2,)
    assert np.array_equal(case.inputs[0], X.astype(ml_dtypes.bfloat16)) and case.expected[0].shape == X.shape


def test_constants_are_inputs_too_and_fields_come_from_attributes(tmp_path: Path) -> None:
    """A node of a plugin that nobody here defines: fields as the file has them."""
    weights = np.arange(400, dtype=np.float32)
    (tmp_path / "a").mkdir()
    attributes = 'alpha = 0.5, kind = "sum", sizes = [1, 2], plugin_version = "3"'
    text = f"""(float[2] x) => (float[2] y) {{
        k = Constant <value = int32[1] {{7}}> () y = acme.Scaled <{attributes}> (x, w, k) }}"""
    written(tmp_path / "a" / "node.onnx", text, {"w": weights})
    np.savez(tmp_path / "a" / "inputs.npz", x=np.array([1, 2], np.float32))
    np.savez(tmp_path / "a" / "expected.npz", y=np.array([3, 4], np.float32))
    case = read_case(tmp_path / "a")
    assert dict(case.fields) == {"alpha": 0.5, "kind": "sum", "sizes": (1, 2)}
    assert case.inputs[0].tolist() == [1, 2] and np.array_equal(case.inputs[1], weights)
    assert case.inputs[2].tolist() == [7]


def without(name: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        np.savez(path / name, other=X)

    return change


def second_plugin(path: Path) -> None:
    model = onnx.load(path / "node.onnx")
    model.graph.node.append(oh.make_node("MatrixInverse", ["y"], ["z"], **{**PLUGIN, "name": "two"}))
    onnx.save(model, path / "node.onnx")


def no_plugin(path: Path) -> None:
    model = onnx.load(path / "node.onnx")
    model.graph.node[0].CopyFrom(oh.make_node("Neg", ["x"], ["y"]))
    onnx.save(model, path / "node.onnx")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without("inputs.npz"), "missing: x"), (without("expected.npz"), "missing: y"),
        (second_plugin, "2 plugin nodes"), (no_plugin, "0 plugin nodes"),
        (lambda path: (path / "inputs.npz").unlink(), "cannot be read"),
        (lambda path: (path / "node.onnx").unlink(), "does not exist"),
    ],
)  # fmt: skip
def test_folders_that_do_not_do(change: Callable[[Path], Any], words: str, tmp_path: Path) -> None:
    path = folder(tmp_path / "a")
    change(path)
    with pytest.raises(UsageError, match=words):
        read_case(path)


class FakeWorker:
    """Answers as the child does."""

    answer: dict[str, Any] | WorkerDiedError = {}  # noqa: RUF012 - set by each test
    gpu: str | None = "a GPU"

    def __init__(self, *arguments: object) -> None: ...

    def __enter__(self) -> FakeWorker:
        return self

    def __exit__(self, *arguments: object) -> None: ...

    def start(self) -> dict[str, Any]:
        return {"gpu": self.gpu, "creators": [{"name": "Other"}, {"name": "MatrixInverse"}]}

    def restart(self) -> None: ...

    def ask(self, creator: int, what: str, case: object) -> dict[str, Any]:
        assert creator == 1
        if isinstance(self.answer, WorkerDiedError):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "right", "words"),
    [
        ({"verdict": "pass", "note": "relative error 1e-7 of 1e-4"}, True, "the conversion is wrong"),
        ({"verdict": "fail", "what": "error 2", "expected": "less", "fix": ""}, False, "the kernel is wrong"),
        (WorkerDiedError("ended the process with SIGSEGV"), False, "the kernel is wrong"),
    ],
)
def test_whom_it_blames(
    answer: Any, right: bool, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LibraryWorker", FakeWorker)
    monkeypatch.setattr(FakeWorker, "answer", answer)
    found = replay(read_case(folder(tmp_path / "a")), Path("lib.so"))
    assert found is not None and found.right is right and words in found.verdict
    assert found.to_json()["verdict"] == found.verdict and found.text


def test_a_library_without_the_plugin(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no plugin MatrixInverse"):
        replay(read_case(folder(tmp_path / "a")), library("good_v3"))


@pytest.mark.skipif(gpu_count() > 0, reason="there is a GPU")
def test_without_a_gpu_nothing_is_run(tmp_path: Path) -> None:
    assert replay(read_case(folder(tmp_path / "a")), plugin_library()) is None
    with LibraryWorker(plugin_library(), None, 60.0) as worker:
        kernels = Kernels(worker, plugin_library())
        with pytest.raises(UsageError, match="there is no GPU"):
            kernels.call("MatrixInverse", KernelCall({}, (X,), tmp_path))


def test_outputs_of_a_call_come_back_and_faults_end_the_child(tmp_path: Path) -> None:
    worker: Any = FakeWorker()
    raw = Y.astype(ml_dtypes.bfloat16)
    (tmp_path / "0").write_bytes(raw.tobytes())
    worker.answer = {"outputs": [{"dtype": "bfloat16", "shape": [2, 3, 3]}]}
    kernels = Kernels(worker, Path("lib.so"))
    (found,) = kernels.call("MatrixInverse", KernelCall({}, (X,), tmp_path))
    assert found.dtype == ml_dtypes.bfloat16 and np.array_equal(found, raw)
    with pytest.raises(UsageError, match="no plugin Missing"):
        kernels.call("Missing", KernelCall({}, (), tmp_path))
    worker.answer = {"problem": {"what": "an illegal address", "where": "a", "expected": "b", "fix": "c"}}
    restarted = []
    worker.restart = lambda: restarted.append(1)
    with pytest.raises(ConversionError, match="illegal address"):
        kernels.call("MatrixInverse", KernelCall({}, (X,), tmp_path))
    assert restarted
