"""Values without readers are removed, including nodes with subgraphs and values that only these read."""

from __future__ import annotations

from pathlib import Path

from tests.converter.rewrite.running import loaded
from trtsmith.converter.graph.graph import Graph

TEXT = """
    <ir_version: 9, opset_import: ["": 18]>
    g (float[2] x, bool c) => (float[2] y) {
        read = Abs (x)
        chosen = If (c) <then_branch = t () => (float[2] a) { a = Neg (read) },
                         else_branch = f () => (float[2] b) { b = Identity (x) }>
        last = Exp (chosen)
        y = Identity (x)
    }
"""


def test_an_unread_if_goes_with_what_it_reads(tmp_path: Path) -> None:
    graph = Graph(loaded(TEXT, tmp_path))
    last = next(node for node in graph.root.nodes if node.op_type == "Exp")
    graph.root.rebuild([node for node in graph.root.nodes if node is not last])
    graph.remove_dead(last.reads(), graph.root)
    assert [node.op_type for node in graph.root.nodes] == ["Identity"]
