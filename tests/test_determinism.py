"""Written files do not depend on the order of sets, which changes with Python's hash seed."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted(path for part in ("converter", "importers") for path in (ROOT / part).rglob("*.py"))

REWRITE = """
import sys, onnx
from pathlib import Path
from tests.rule_examples import examples_of
from trtsmith.converter.model.load import load_model
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.converter.rewrite.rules import RULES
from trtsmith.converter.rewrite.target import RTX
(rule,) = [rule for rule in RULES if rule.name == "scatter-elements"]
(example,) = [example for example in examples_of(rule) if example.name == "in parts"]
path = Path(sys.argv[1])
onnx.save(onnx.parser.parse_model(example.text), path)
proto = rewrite(load_model(path), RTX).model.proto
for tensor in proto.graph.initializer:
    for entry in tensor.external_data:
        if entry.key == "location":
            entry.ClearField("value")  # the name of an unnamed file, which is drawn
print(proto.SerializeToString(deterministic=True).hex())
"""


def is_set(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitOr, ast.BitAnd, ast.Sub)):
        return is_set(node.left) or is_set(node.right)
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(node, (ast.Set, ast.SetComp)) or (
        isinstance(called, ast.Name) and called.id in ("set", "frozenset")
    )


def test_no_loop_goes_through_a_set_that_is_made_for_it() -> None:
    """sorted(...) or dict.fromkeys(...) instead; what only makes another set may."""
    found = []
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        free = {c for n in ast.walk(tree) if isinstance(n, ast.SetComp) for c in n.generators}
        for node in ast.walk(tree):
            if isinstance(node, (ast.For, ast.comprehension)) and node not in free and is_set(node.iter):
                found.append(f"{path.relative_to(ROOT)}:{node.iter.lineno}: {ast.unparse(node.iter)}")
    assert found == []


def test_a_graph_is_the_same_in_every_process(tmp_path: Path) -> None:
    def run(hash_seed: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", REWRITE, str(tmp_path / "m.onnx")],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    assert run("0") == run("1") != ""
