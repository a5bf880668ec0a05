"""trtsmith plugin migrate: writes a package of V3 plugins for a library's V2 plugins."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from trtsmith.converter.base.errors import EXIT_OK, ConversionError, UsageError
from trtsmith.converter.base.options.kinds import Flag, Ranges, StrPath, positive_seconds
from trtsmith.converter.cli.commands.op_new import examples
from trtsmith.converter.cli.console import Console
from trtsmith.converter.plugin.cases import contract_cases
from trtsmith.converter.plugin.contract import ContractCase
from trtsmith.converter.plugin.creators import list_creators
from trtsmith.converter.plugin.host.abi import DTYPES
from trtsmith.converter.plugin.host.plugin_values import TensorDesc, Value
from trtsmith.flags import add_options
from trtsmith.importers.counted import counted
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import operators
from trtsmith.options import Operators

_EPILOG = """examples:
  trtsmith plugin migrate libyours.so --model yours.onnx
  trtsmith plugin migrate libyours.so --plugin Repeat --example x=2x3x4 --example repeats=3
"""

_DOMAIN = "trt.plugins"


class ModelNodes(Operators, total=False):
    model: Annotated[StrPath | None, Flag("a model whose nodes are the cases", "ONNX")]
    shapes: Annotated[
        Ranges | None,
        Flag("sizes of the model's dynamic inputs, as images=2x3x640x640; once for each input", "NAME=SHAPE"),
    ]


def add_parser(actions: Any, common: argparse.ArgumentParser) -> None:
    text = "write a V3 package of a library's V2 plugins, by what they answer"
    parser = actions.add_parser(
        "migrate",
        parents=[common],
        help=text,
        description=f"{text[0].upper()}{text[1:]}. TensorRT 11 deprecates V2. Runs the library's code.",
        epilog=_EPILOG,
    )
    parser.add_argument("library", type=Path, metavar="LIB", help="the shared library, or a folder with one")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="the folder to write")
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="NAME",
        help="migrate this one (all), or a version of it, NAME:VERSION; repeatable",
    )
    parser.add_argument(
        "--example",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an input, x=2x3x4 or ids=5:int64, in their order; or the value of a field, k=3; repeatable",
    )
    parser.add_argument("--domain", default=_DOMAIN, help=f"ONNX domain of the plugins' nodes ({_DOMAIN})")
    parser.add_argument(
        "--timeout", type=positive_seconds, default=120.0, metavar="SECONDS", help="for one plugin (120)"
    )
    parser.add_argument("--json", action="store_true", help="what was observed, as JSON on stdout")
    add_options(parser, ModelNodes)
    parser.set_defaults(run=_migrate)


def _migrate(options: argparse.Namespace, console: Console) -> int:
    # Reads models and writes packages; the other plugin commands work where the libraries for that are missing.
    from trtsmith.converter.scaffold.folder import check_free, write_folder
    from trtsmith.converter.scaffold.from_plugin import migrate_plugins
    from trtsmith.converter.scaffold.migrated_files import migrated_files, package_name, unwritten

    library = _library(options.library)
    package = package_name(library)
    folder: Path = options.output or Path(package)
    check_free(folder)
    cases = _cases(options, library)
    made, problems = migrate_plugins(library, cases, package, options.domain, options.timeout)
    if problems:
        raise ConversionError(problems)
    write_folder(folder, migrated_files(package, library, made))
    console.json({"folder": str(folder), "plugins": [one.to_json() for one in made]}) if options.json else (
        console.result(str(folder))
    )
    for one in made:
        draft = one.draft
        counts = (("input", draft.inputs), ("output", draft.outputs), ("field", draft.fields))
        parts = (counted(len(items), what) for what, items in counts)
        console.say(f"{one.plugin}: {draft.names.name}, {', '.join(parts)}")
        for text in unwritten(one):
            console.say(f"  to be written: {text}")
        for text in one.notes:
            console.say(f"  note: {text}")
    place = shlex.quote(str(folder))
    console.note(f"then: fill in launch in {place}/kernels/*.cu, with the body of the old enqueue")
    console.note(f"      trtsmith op build {place}")
    console.note(f"      pytest {place}")
    return EXIT_OK


def _library(path: Path) -> Path:
    """The shared library, or the only one in a folder. Raises UsageError for none or several."""
    if not path.is_dir():
        return path
    found = sorted(path.rglob("*.so"))
    if len(found) != 1:
        names = ", ".join(str(one.relative_to(path)) for one in found) or "none"
        raise UsageError(
            f"the folder has {len(found)} shared libraries: {names}",
            str(path),
            "one library, compiled of the sources there",
            "name the library",
        )
    return found[0]


def _cases(options: argparse.Namespace, library: Path) -> dict[str, list[ContractCase]]:
    """The cases of every requested plugin. Raises UsageError, with all that is missing, if one has none."""
    from trtsmith.converter.scaffold.from_plugin import creator_of

    creators = list_creators(library)["creators"]
    names = list(dict.fromkeys(str(creator["name"]) for creator in creators))
    wrong = [name for name in options.plugin if creator_of(creators, name) < 0]
    if wrong:
        raise UsageError(
            f"the library has no plugin {wrong[0]}",
            f"--plugin {wrong[0]}",
            f"one of {', '.join(names)}",
            "correct the name",
        )
    chosen = list(dict.fromkeys(options.plugin)) or names
    plain = {name: name.partition(":")[0] for name in chosen}
    known = list(contract_cases(op for op in operators() if op.name in plain.values()))
    if options.model is not None:
        known += _of_model(options, library)
    cases = {name: [case for case in known if case.plugin == plain[name]] for name in chosen}
    if options.example:
        if len(chosen) != 1:
            raise UsageError(
                f"--example is for one plugin, and {len(chosen)} are to be migrated",
                f"--example {options.example[0]}",
                f"--plugin with one of {', '.join(chosen)}",
                f"add --plugin {chosen[0]}",
            )
        (name,) = chosen
        creator = creators[creator_of(creators, name)]
        cases[name] = _with_examples(plain[name], creator, cases[name], examples(options.example))
    missing = [name for name, found in cases.items() if not found]
    if missing:
        raise UsageError([_no_case(library, name) for name in missing])
    return cases


def _no_case(library: Path, name: str) -> Problem:
    return Problem(
        f"the inputs of {name} are not known: a V2 plugin does not say how many it has, nor their ranks",
        f"plugin {name} of {library}",
        "a model with a node of it, or an example of each input, and of fields that have no default",
        f"--plugin {name} --example x=2x3x8x8, or --model yours.onnx",
    )


def _of_model(options: argparse.Namespace, library: Path) -> tuple[ContractCase, ...]:
    from trtsmith.converter.base.options.shapes import parse_shapes
    from trtsmith.converter.convert.plugin_cases import cases_from_model

    return cases_from_model(options.model, library, parse_shapes(options.shapes)).contract


def _with_examples(
    plugin: str, creator: Mapping[str, Any], cases: list[ContractCase], given: Mapping[str, str]
) -> list[ContractCase]:
    """The case that the examples give; if they give only fields, the other cases with these values."""
    types = {field["name"]: field["type"] for field in creator["fields"]}
    fields = {name: _field(name, types[name], text) for name, text in given.items() if name in types}
    inputs = tuple(_tensor(name, text) for name, text in given.items() if name not in types)
    if inputs:
        return [ContractCase(plugin, "example", fields, inputs, ())]
    return [replace(case, fields={**case.fields, **fields}) for case in cases]


def _field(name: str, kind: str, text: str) -> Value:
    whole = kind.startswith("int") or (kind == "unknown" and re.fullmatch(r"[-\d,]+", text))
    try:
        numbers = tuple((int if whole else float)(part) for part in text.split(","))
    except ValueError:
        raise UsageError(
            f"{text!r} is no value of a field of {kind}",
            f"--example {name}={text}",
            "a number, or several with commas between them",
            f"--example {name}=1",
        ) from None
    return numbers if "," in text else numbers[0]


def _tensor(name: str, text: str) -> TensorDesc:
    sizes, _, dtype = text.partition(":")
    if not re.fullmatch(r"\d+(x\d+)*", sizes) or (dtype or "float32") not in DTYPES:
        raise UsageError(
            f"{text!r} is not a shape, and {name} is no field of the plugin",
            f"--example {name}={text}",
            f"sizes with x between them, and a type if it is not float32: one of {', '.join(DTYPES)}",
            f"--example {name}=2x3x4, or --example {name}=5:int64",
        )
    return TensorDesc(dtype or "float32", tuple(map(int, sizes.split("x"))))
