"""An If that tests for an empty tensor stays where its branches may differ for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.converter.rewrite.running import loaded
from tests.rule_examples.control_flow.empty_if import EXAMPLES
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.converter.rewrite.target import RTX, TENSORRT, Target

TEXT = EXAMPLES["empty-if"][0].text


def ifs(text: str, folder: Path, target: Target = TENSORRT) -> int:
    model = rewrite(loaded(text, folder), target).model
    return sum(node.op_type == "If" for node in model.proto.graph.node)


@pytest.mark.parametrize("target", [RTX, TENSORRT])
def test_the_selection_is_in_no_branch(target: Target, tmp_path: Path) -> None:
    assert ifs(TEXT, tmp_path, target) == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"int64[0] {}": "int64[1] {7}"},  # another size for none
        {"classes = Gather (c, kept)": "classes = Identity (c)"},  # an outer size that is not 0
        {"found = Non": "three = Constant <value = int64 {3}> ()  z = Gather (boxes, three)  found = Non"},
        {"is_empty = Equal (elements, zero)": "four = Constant <value = int64 {4}> ()  is_empty = Equal (elements, four)"},
        {"float[9, 4] b": "float[9, n] b"},  # where boxes have no numbers it is empty, too
    ],
)  # fmt: skip
def test_it_stays_where_that_is_not_certain(changes: dict[str, str], tmp_path: Path) -> None:
    text = TEXT
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    assert ifs(text, tmp_path) == 1


@pytest.mark.parametrize(
    ("numbers", "empty", "other"),
    [
        ("n", "int64[0] {}", "q = Identity (kept)"),  # boxes without numbers are not no boxes
        (
            "4",
            "int64[1] {7}",
            "q = Constant <value = int64[1] {8}> ()",
        ),  # outputs of one shape that is not empty
    ],
)
def test_it_stays_where_outputs_may_have_elements(
    numbers: str, empty: str, other: str, tmp_path: Path
) -> None:
    condition = TEXT[TEXT.index("sizes = Shape") : TEXT.index("y = If")]
    kept = TEXT[TEXT.index("threshold = Const") : TEXT.index("boxes = Gather")]
    text = f"""<ir_version: 9, opset_import: ["" : 17]> g (float[9, {numbers}] b, float[9] s) => (int64[k] y) {{
        {kept} boxes = Gather (b, kept) {condition}
        y = If (is_empty) <
            then_branch = none () => (int64[r] p) {{ p = Constant <value = {empty}> () }},
            else_branch = some () => (int64[t] q) {{ {other} }}
        >
    }}"""
    assert ifs(text, tmp_path) == 1
    assert (
        ifs(
            text.replace("[9, n]", "[9, 4]")
            .replace("{8}", "{}")
            .replace("{7}", "{}")
            .replace("int64[1] {}", "int64[0] {}"),
            tmp_path,
        )
        == 0
    )
