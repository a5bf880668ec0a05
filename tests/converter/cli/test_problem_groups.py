"""Problems of one kind are printed once, and only those."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.converter.cli.commands.running import Cli, refused
from tests.converter.models import written
from trtsmith.converter.cli.problem_groups import grouped
from trtsmith.importers.problem import Problem


def unknown(name: str, fix: str = "", op_type: str = "acme::Gate") -> Problem:
    return Problem(
        f"no importer for operator {op_type}",
        f"node {name!r} ({op_type})",
        "an operator that is known",
        fix or f"trtsmith op new Gate --node {name}",
    )


def test_nodes_that_differ_in_their_names_are_one_problem() -> None:
    (one,) = grouped(unknown(f"/b{i}/act") for i in range(100))
    assert one == Problem(
        "100 nodes: no importer for operator acme::Gate (/b0/act, /b1/act, /b2/act, ... 97 more)",
        "node '/b0/act' (acme::Gate), and 99 more",
        "an operator that is known",
        "trtsmith op new Gate --node /b0/act",
    )
    (four,) = grouped(unknown(f"n{i}") for i in range(4))
    assert four.what.endswith("(n0, n1, n2, n3)")


def test_the_order_is_that_of_the_first_of_each() -> None:
    problems = [
        unknown("a"),
        unknown("b", op_type="x::Y"),
        unknown("c"),
        Problem("what", "where", "e", "f"),
        unknown("d"),
    ]
    assert [p.what.split(" (")[0] for p in grouped(problems)] == [
        "3 nodes: no importer for operator acme::Gate",
        "no importer for operator x::Y",
        "what",
    ]


def test_one_alone_stays_as_it_is() -> None:
    problems = [unknown("a"), Problem("x", "y", "z", "f"), unknown("b", op_type="x::Y")]
    assert grouped(problems) == problems
    assert grouped([]) == []


@pytest.mark.parametrize("part", ["what", "expected", "fix"])
def test_what_is_not_the_same_stays_apart(part: str) -> None:
    first = unknown("a", "fix")
    other = Problem(**{**unknown("b", "fix").to_json(), part: "something else"})
    assert grouped([first, other]) == [first, other]


def test_a_short_name_is_not_taken_out_of_words() -> None:
    first = Problem("what a name", "node 'a' (X)", "e", "export a again")
    other = Problem("what b nbme", "node 'b' (X)", "e", "export b again")
    assert len(grouped([first, other])) == 2
    assert len(grouped([first, Problem("what b name", "node 'b' (X)", "e", "export b again")])) == 1


def test_inputs_have_fixes_of_their_own() -> None:
    problems = [
        Problem(f"input {name!r} is dynamic", f"input {name!r}", "shapes", f"--shapes {name}=1")
        for name in "xyz"
    ]
    assert grouped(problems) == problems
    same = [
        Problem(f"input {name!r} has strings", f"input {name!r}", "numbers", "export again") for name in "xyz"
    ]
    (one,) = grouped(same)
    assert one.what == "3 inputs: input 'x' has strings (x, y, z)"


def test_names_as_others_write_them() -> None:
    names = ["", "a'b", 'a"b', "new\nline", "x" * 300, "\x1b[31m", "[bold]"]
    (one,) = grouped(unknown(name, "fix") for name in names)
    assert (
        one.what.startswith("7 nodes: ")
        and "new\\nline" in grouped(unknown(n, "fix") for n in names[1:4])[0].what
    )
    assert len(one.what) < 400
    (nameless,) = grouped(unknown("", "fix") for _ in range(3))
    assert nameless.what == "3 nodes: no importer for operator acme::Gate"
    assert grouped([Problem("w", "node 'broken", "e", "f")] * 2) == [Problem("w", "node 'broken", "e", "f")]


def test_the_parsers_numbers_do_not_keep_nodes_apart() -> None:
    problems = [Problem("w", f"node 'n{i}' (X), number {i}, in m.onnx", "e", "f") for i in range(3)]
    (one,) = grouped(problems)
    assert one.where == "node 'n0' (X), number 0, in m.onnx, and 2 more"


def test_a_command_tells_once_and_writes_down_all(here: Path, cli: Cli) -> None:
    body = " ".join(f"[b{i}] v{i + 1} = acme.Gate (v{i})" for i in range(100))
    written(here / "m.onnx", f"(float[1,4] v0) => (float[1,4] v100) {{ {body} }}")
    told = "100 nodes: no importer for operator acme::Gate (b0, b1, b2, ... 97 more)"
    for command in ("check m.onnx", "convert m.onnx -o m.plan"):
        ran = cli(f"{command} --report r.json")
        refused(ran, 1, told)
        assert ran.err.count("error:") == 1
        assert len(json.loads(Path("r.json").read_text())["problems"]) == 100, command
    listed = json.loads(cli("check m.onnx --json").out)
    assert len(listed["problems"]) == 100
    ran = cli("rewrite m.onnx -o o.onnx")
    assert ran.err.count("TensorRT will refuse the graph") == 1 and told in ran.err
