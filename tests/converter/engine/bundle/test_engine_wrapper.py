"""The model that wraps an engine for onnxruntime's TensorRT provider: onnxruntime's own schema of the node."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxruntime
import pytest

from tests.converter.engine.bundle.test_triton import FIXED, IMAGES, RTX, engine
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.bundle.bundle import file_digest
from trtsmith.converter.engine.bundle.engine_wrapper import write_wrapper


def test_onnxruntime_knows_the_node(tmp_path: Path) -> None:
    written = write_wrapper(engine(tmp_path, IMAGES))
    assert written.path == tmp_path / "model_ctx.onnx" and "TensorrtExecutionProvider" in written.command
    assert "load_library" not in written.command
    model = onnx.load(written.path)
    onnx.checker.check_model(model)
    (node,) = model.graph.node
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    assert attributes == {"embed_mode": 0, "main_context": 1, "ep_cache_context": b"model.plan"}
    (images, scale), (boxes, count) = model.graph.input, model.graph.output
    sizes = [one.dim_param or one.dim_value for one in images.type.tensor_type.shape.dim]
    assert sizes == ["images_0", 3, "images_2", 64]
    kinds = [value.type.tensor_type.elem_type for value in (scale, boxes, count)]
    assert kinds == [onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16, onnx.TensorProto.INT64]
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented, match="EPContext"):
        onnxruntime.InferenceSession(written.path, providers=["CPUExecutionProvider"])


def test_libraries_are_loaded_before_the_engine(tmp_path: Path) -> None:
    library = tmp_path / "libown.so"
    library.write_bytes(b"plugins")
    files = {"model.plan": file_digest(engine(tmp_path, FIXED)), "libown.so": file_digest(library)}
    path = engine(tmp_path, FIXED, plugins=["Own"], files=files)
    written = write_wrapper(path, path.with_name("own.onnx"))
    assert written.path.name == "own.onnx"
    load, opens = written.command.index(f"load_library({str(library)!r})"), written.command.index("own.onnx")
    assert load < opens


def test_engines_and_files_that_the_provider_does_not_find(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="TensorRT provider runs no engine of TensorRT-RTX") as caught:
        write_wrapper(engine(tmp_path, FIXED, tensorrt=RTX))
    assert "trtsmith rewrite MODEL.onnx --for onnxruntime" in caught.value.problems[0].fix
    path = engine(tmp_path, FIXED)
    (tmp_path / "other").mkdir()
    with pytest.raises(UsageError, match="not beside the engine"):
        write_wrapper(path, tmp_path / "other" / "model_ctx.onnx")
    (tmp_path / "model_ctx.onnx").write_bytes(b"mine")
    with pytest.raises(UsageError, match="would replace"):
        write_wrapper(path)
    write_wrapper(path, force=True)
    write_wrapper(path)
