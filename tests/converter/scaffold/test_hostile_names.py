"""`trtsmith op new` runs no code of a model: its names become literals, identifiers and code spans."""

from __future__ import annotations

import ast
import keyword
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from tests.processes import checkout_environment
from trtsmith.converter.base.errors import EXIT_OK, UsageError
from trtsmith.converter.cli.main import main
from trtsmith.converter.scaffold.body_rules import FunctionBody, rules_of_body
from trtsmith.converter.scaffold.draft import Draft
from trtsmith.converter.scaffold.draft_files import draft_files
from trtsmith.converter.scaffold.from_model import draft_of_node
from trtsmith.converter.scaffold.function_text import body_of_function
from trtsmith.converter.scaffold.names import Names
from trtsmith.converter.scaffold.port_types import port_names
from trtsmith.converter.scaffold.quoting import CPP_WORDS, code_span
from trtsmith.converter.scaffold.reference_source import body_file
from trtsmith.importers.function_bodies import filled, run_body
from trtsmith.importers.opdef import Attr, Field, Kind

SEED = 3
COUNT = 250
CODE = '__import__("pathlib").Path("pwned").touch()'
PARTS = (
    *('"', "'", '"""', "'''", "\\", "\\\\", "\n", "\r", "\t", "\0", "\x1b[2J", "\x7f", "\u2028", "\u202e", "é", "名"),
    *("${x}", "$ENV{HOME}", "$(touch pwned)", "`", "```", "|", "~~~", "<script>", "](http://x)", "# ", "---\n", "@Name@"),
    *(";", "#", "]]", "]==]", ")", '(")', 'R"x(', ')x"', "//", "/*", "*/", "??/\n", "#include <x>\n", "\\N{DASH}"),
    *("{", "}", "{}", "%s", "\\x22", "\\u0022", "=", ",", "[tool.x]\n", 'x = "y"\n', "class", "None", "0", " ", "a", "_"),
    *(f"\n{CODE}\n", f'"""\n{CODE}\n"""', f'", {CODE}, "', f'"\n{CODE}#', f"{{{CODE}}}", f'\\"""\n{CODE}\n'),
)  # fmt: skip
NAMES = Names("VoxelPool", "mycompany")


def hostile_names() -> Iterator[str]:
    draw = random.Random(SEED)
    for _ in range(COUNT):
        yield "".join(draw.choices(PARTS, k=draw.randint(1, 5)))


def model_of(name: str) -> onnx.ModelProto:
    """One node that nobody knows, with the name wherever a model has room for one."""
    values = [f"in{name}", f"out{name}"]
    made = helper.make_node(
        f"Op{name}", values[:1], values[1:], name=f"node{name}", domain=f"d.{name}", text=name
    )
    info = [helper.make_tensor_value_info(value, TensorProto.FLOAT, [f"n{name}", 4]) for value in values]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(f"d.{name}", 1)]
    graph = helper.make_graph([made], name, info[:1], info[1:], doc_string=name)
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, producer_name=name)


def draft_of(name: str, folder: Path) -> Draft:
    path = folder / "model.onnx"
    onnx.save(model_of(name), path)
    draft = draft_of_node(NAMES, path, f"node{name}")
    field = Field(f"f{name}", Kind.STRING, name, default=name, allowed=(name,))
    return replace(
        draft,
        doc=name,
        source=name,
        fields=(*draft.fields, field),
        attributes=(*draft.attributes, Attr(f"f{name}", Kind.STRING, name)),
        values={**draft.values, f"f{name}": name},
        cases={f"case{name}": sizes for sizes in draft.cases.values()},
    )


def tree(source: bytes) -> str:
    """The syntax tree, with every string alike."""
    parsed = ast.parse(source)
    for node in ast.walk(parsed):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return ast.dump(parsed)


def without_spans(text: bytes) -> str:
    return re.sub(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", "`", text.decode())


def test_no_name_of_a_model_changes_the_syntax_of_a_file_that_new_writes(tmp_path: Path) -> None:
    harmless = draft_files(draft_of("x", tmp_path))
    for name in hostile_names():
        files = draft_files(draft_of(name, tmp_path))
        assert files.keys() == harmless.keys()
        for path, content in files.items():
            if path.endswith(".py"):
                assert tree(content) == tree(harmless[path]), (name, path)
            elif path == "README.md":
                assert without_spans(content) == without_spans(harmless[path]), name
            elif path != "example.onnx":
                assert content == harmless[path], (name, path)


def test_a_literal_is_what_it_was_written_of() -> None:
    for name in hostile_names():
        body = next(
            node.value
            for node in ast.parse(body_file(NAMES, "the model", name, 18)).body
            if isinstance(node, ast.Assign) and node.targets[0].id == "BODY"  # type: ignore[attr-defined]
        )
        assert ast.literal_eval(body) == f"\n{name}\n"
        assert "\n" not in code_span(name)


def test_port_names_are_identifiers_of_every_language() -> None:
    given = [*hostile_names(), *keyword.kwlist, *CPP_WORDS]
    found = port_names(given, "input")
    assert len(set(found)) == len(given)
    for name in found:
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name, re.ASCII), name
        assert not keyword.iskeyword(name) and name not in CPP_WORDS


BODY = """<ir_version: 9, opset_import: ["" : 18, "acme" : 1]>
g (float[N, 6] x) => (float[N, 6] y) { [gate] y = acme.Op <slope = 0.25> (x) }
<domain: "acme", opset_import: ["" : 18]>
Op <slope: float = 0.1> (data) => (out) { out = LeakyRelu <alpha: float = @slope> (data) }
"""


def with_function(name: str) -> onnx.ModelProto:
    """A node whose function has the name for its domain, op_type, ports, inner values and a string."""
    model = onnx.parser.parse_model(BODY)
    function, node = model.functions[0], model.graph.node[0]
    for one in (function, node):
        one.domain = f"d{name}"
    function.name = node.op_type = f"Op{name}"
    model.opset_import[1].domain = f"d{name}"
    function.input[0] = function.node[0].input[0] = f"data{name}"
    hidden = helper.make_node(
        "Constant", [], [f"hidden{name}"], value_string=f"{name} slope: float = @slope @slope@"
    )
    function.node.insert(0, hidden)
    return model


@pytest.mark.parametrize("name", [f'"""\n{CODE}\n"""', f'", {CODE}, "', f"\\\n{CODE}\n'''"])
def test_it_runs_no_code_of_its_own_through_new(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(with_function(name), "model.onnx")
    words = ["op", "new", "VoxelPool", "--from-model", "model.onnx", "--node", "gate", "-o", "package"]
    assert main(words) == EXIT_OK
    imported = "from voxel_pool.definition import VOXEL_POOL as op; print(op.aliases[0].op_type)"
    environment = checkout_environment(PYTHONPATH=f"package:{checkout_environment()['PYTHONPATH']}")
    ran = subprocess.run([sys.executable, "-c", imported], capture_output=True, text=True, env=environment)
    assert ran.stdout == f"Op{name}\n", ran.stderr
    assert main(["check", "package/example.onnx", "--ops", "package"]) == EXIT_OK
    assert not Path("pwned").exists()


def test_an_attribute_that_is_no_name_is_refused(tmp_path: Path) -> None:
    model = model_of("x")
    model.graph.node[0].attribute.append(helper.make_attribute(f'a", {CODE}, "', 1))
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(UsageError, match="an attribute is called"):
        draft_of_node(NAMES, tmp_path / "model.onnx", "nodex")


@pytest.mark.parametrize("place", ["op_type", "name"])
def test_names_within_a_body_are_no_statements_of_it(place: str) -> None:
    model = onnx.parser.parse_model(BODY)
    node = model.functions[0].node[0]
    setattr(node if place == "op_type" else node.attribute[0], place, "Neg (data)\n z = Relu")
    with pytest.raises(UsageError, match="an operator or an attribute with the name"):
        body_of_function(model, model.functions[0], ["x"], ["y"])


def test_a_string_in_a_body_is_no_place_for_a_value() -> None:
    model = with_function("")
    body, opset = body_of_function(model, model.functions[0], ["x"], ["y"])
    text = filled(body, {"slope": 0.5})
    assert 'slope: float = @slope @slope@"' in text and "alpha = 0.5" in text
    assert filled("a = @s@", {"s": 'q" (x)\nb\\'}) == 'a = "q\\" (x)\nb\\\\"'
    assert run_body(
        text, opset, {"x": onnx.numpy_helper.to_array(helper.make_tensor("", 1, [1], [-1.0]))}, ["y"]
    )


def body_that(statements: str) -> FunctionBody:
    return FunctionBody(statements, 18, {"x": "T"}, ("y",), {}, {"x": (4,)}, "node 'gate'")


def test_new_runs_bodies_in_a_process_with_limits() -> None:
    huge = "s = Constant <value = int64[1] {1099511627776}> ()\ny = ConstantOfShape (s)"
    with pytest.raises(UsageError, match="do not run in onnx's reference evaluator"):
        rules_of_body(body_that(huge))
    endless = (
        "n = Constant <value = int64 {9223372036854775807}> ()\nc = Constant <value = bool {1}> ()\n"
        "y = Loop (n, c, x) <body = b (int64 i, bool go, float[k] a) => (bool more, float[k] z) "
        "{ more = Identity (go)\n z = Neg (a) }>"
    )
    with pytest.raises(
        UsageError, match=r"the process that runs the node's function body did not finish within 3 s"
    ):
        rules_of_body(body_that(endless), timeout_s=3)
