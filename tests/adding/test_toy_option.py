"""Tests that a block's option is declared once: commands, the API, a zoo, JSON and both references have it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.adding.toys import copy_checkout, run_in

TOYS = {
    "converter/engine/builder/build_request.py": (
        "    settings: Mapping[str, Any] = field",
        '    max_engine_size: Annotated[int | None, Flag("largest engine that is kept", "MIB")] = None\n',
    ),
    "converter/engine/runtime/run_request.py": (
        "    timeout_s: Annotated[float | None, Flag",
        '    first_gpu: Annotated[bool, Flag("run on the first GPU")] = False\n',
    ),
}
"""By the file of a block, the line before which an option is added, and the option."""

PROBE = """
import inspect, json
from pathlib import Path
import trtsmith
from trtsmith.convert_function import CONVERSION, conversion_of
from trtsmith.converter.engine.builder.build_request import BuildRequest
from trtsmith.converter.base.options.declared import with_defaults
from trtsmith.zoo_commands import zoo_commands

commands = "bench convert locate refit run verify".split()
parameters = {name: inspect.signature(getattr(trtsmith, name)).parameters for name in commands}
asked = conversion_of(Path("m.onnx"), Path("m.plan"), with_defaults(CONVERSION, {"max_engine_size": 3}))
request = BuildRequest(Path("g.onnx"), Path("e"), **vars(asked.builder()))
print(json.dumps({
    "API": str(parameters["convert"]["max_engine_size"]),
    "zoo": zoo_commands().convert.parse(["--max-engine-size", "5"]).max_engine_size,
    "runs": [name for name in commands if "first_gpu" in parameters[name]],
    "child": BuildRequest.from_json(request.to_text()).max_engine_size,
}))
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with one line more in each block."""
    folder = copy_checkout(tmp_path_factory.mktemp("checkout"))
    for name, (before, toy) in TOYS.items():
        text = (folder / name).read_text(encoding="utf-8")
        assert text.count(before) == 1
        (folder / name).write_text(text.replace(before, toy + before), encoding="utf-8")
    return folder


def test_the_api_a_zoo_and_the_child_that_builds_have_it(checkout: Path) -> None:
    ran = run_in(checkout, "-c", PROBE)
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    assert said.pop("runs") == ["bench", "locate", "refit", "run", "verify"]
    assert said == {"API": "max_engine_size: 'int | None' = None", "zoo": 5, "child": 3}


def test_the_command_has_it_and_judges_its_value(checkout: Path) -> None:
    shown = run_in(checkout, "-m", "trtsmith", "convert", "--help-all").stdout
    assert "--max-engine-size MIB" in shown and "largest engine that is kept" in shown
    wrong = run_in(checkout, "-m", "trtsmith", "convert", "m.onnx", "--max-engine-size", "0")
    assert wrong.returncode == 2 and "'0' is not a whole number from 1 to" in wrong.stderr


def test_what_cannot_honour_it_refuses_it_by_name(checkout: Path) -> None:
    words = "convert m.onnx --bundle-for orin --max-engine-size 3"
    refused = run_in(checkout, "-m", "trtsmith", *words.split())
    assert refused.returncode == 2
    assert (
        "--bundle-for orin prepares a build on the device, and does not go with --max-engine-size"
        in refused.stderr
    )
    unknown = run_in(checkout, "-m", "trtsmith", "check", "m.onnx", "--max-engine-size", "3")
    assert unknown.returncode == 2 and "unknown flag --max-engine-size" in unknown.stderr


def test_both_references_and_the_types_of_keywords_are_made_of_it(checkout: Path) -> None:
    pages = {
        "docs/reference/cli.md": "| `--max-engine-size MIB` | largest engine that is kept |",
        "docs/reference/python/convert.md": "max_engine_size: int | None = None,",
        "docs/reference/python/verify.md": "first_gpu: bool = False,",
        "converter/base/options/keywords.pyi": "    max_engine_size: int | None\n",
    }
    only = f"docs.DOCUMENTS = {{page: docs.DOCUMENTS[page] for page in {[*pages]}}}"  # all of them take 10 s
    made = run_in(checkout, "-c", f"import generate_docs as docs; {only}; docs.main([])")
    assert made.returncode == 0, made.stderr
    for page, text in pages.items():
        assert text in (checkout / page).read_text(encoding="utf-8"), page
