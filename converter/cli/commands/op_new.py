"""trtsmith op new: writes a package for the user's own operator."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from trtsmith.converter.base.errors import EXIT_OK, UsageError
from trtsmith.converter.cli.console import Console
from trtsmith.converter.scaffold.draft import TORCH_NAMES, Draft
from trtsmith.converter.scaffold.draft_files import draft_files
from trtsmith.converter.scaffold.folder import check_free, write_folder
from trtsmith.converter.scaffold.names import Names, check_names
from trtsmith.converter.scaffold.sample import ELEMENTWISE, WINDOWS, sample_files
from trtsmith.flags import add_options
from trtsmith.options import Operators

DESCRIPTION = (
    "Write a package for your own operator: definition, CUDA kernel, binding, cases, tests and an example "
    "model. The package works; change what it computes."
)

EPILOG = """examples:
  trtsmith op new VoxelMaxPool --domain mycompany
  trtsmith op new LeakyClamp --domain mycompany --elementwise
  trtsmith op new Gate --from-model model.onnx --node /gate
  trtsmith op new WindowPool --domain mycompany --from-torch pools.py:window_pool --example points=12x8
"""

_EXAMPLE_DOMAIN = "mycompany"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="NAME", help="name of the operator and its plugin, such as VoxelMaxPool"
    )
    parser.add_argument("--domain", help="ONNX domain in which models write the operator, such as mycompany")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="the folder to write (the name in snake_case)"
    )
    sources = parser.add_mutually_exclusive_group()
    sources.add_argument(
        "--elementwise",
        action="store_true",
        help="begin with an operator that computes each element alone, such as an activation: the shortest kernel",
    )
    sources.add_argument(
        "--from-model",
        type=Path,
        metavar="M.onnx",
        help="take ports, attributes, types and shapes from an unknown node of this model; with --node",
    )
    parser.add_argument("--node", metavar="NODE", help="the node: its name, an output, or its op_type")
    sources.add_argument(
        "--from-torch",
        metavar="MODULE:FUNCTION",
        help="take the computation from a function of PyTorch tensors, in a module or FILE.py, which is imported",
    )
    parser.add_argument(
        "--from-triton",
        metavar="MODULE:KERNEL",
        help="take the kernel from a @triton.jit function, in a module or FILE.py, which is imported and declares a "
        "TritonKernel; --from-torch or the TritonKernel name the same computation in PyTorch",
    )
    parser.add_argument(
        "--example",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="for --from-torch, --from-triton: the shape of a tensor, x=2x3x4 or ids=5:int64, or a number, k=3; repeatable",
    )
    add_options(parser, Operators)


def run(options: argparse.Namespace, console: Console) -> int:
    names = check_names(options.name, _domain(options))
    folder: Path = options.output or Path(names.snake)
    check_free(folder)
    draft = _draft(options, names)
    sample = ELEMENTWISE if options.elementwise else WINDOWS
    write_folder(folder, draft_files(draft) if draft is not None else sample_files(names, sample))
    console.result(str(folder))
    for remark in draft.remarks if draft is not None else ():
        console.say(f"note: {remark}")
    if draft is not None and draft.unwritten:
        console.say(
            "The model does not say what the operator computes. If you have it in PyTorch, this writes a package with all "
            f"of it, {TORCH_NAMES}: {draft.torch_command(str(folder))}"
        )
        console.say(
            f"otherwise to be written: {', '.join(draft.unwritten)}, in {folder / names.snake / 'definition.py'}. The tests "
            "fail until then."
        )
    elif draft is not None and not draft.triton:
        console.say(
            "it has no kernel yet: TensorRT computes the operator's expansion, made of standard operators. README.md "
            "says how a kernel is added."
        )
    _say_next(console, draft, folder)
    return EXIT_OK


def _say_next(console: Console, draft: Draft | None, folder: Path) -> None:
    """The commands that come next."""
    place = shlex.quote(str(folder))
    first = "example" if draft is not None and draft.unwritten else "build"
    console.note(f"then: trtsmith op {first} {place}")
    console.note(f"      pytest {place}")
    console.note(
        f"      trtsmith convert {shlex.quote(str(folder / 'example.onnx'))} -o example.plan --ops {place}"
    )


_BESIDE = {"--node": "--from-model", "--example": "--from-torch", "--from-triton": "--from-torch"}
"""Of options that say nothing alone, the one that they belong to."""


def _check_sources(options: argparse.Namespace) -> None:
    """Raises UsageError for options that need another one, or exclude each other."""
    alone = {
        "--node": options.node and not options.from_model,
        "--example": options.example and not (options.from_torch or options.from_triton),
        "--from-triton": options.from_triton and options.from_model,
    }
    for flag, wrong in alone.items():
        if wrong:
            needed = _BESIDE[flag]
            raise UsageError(f"{flag} has no effect here", flag, f"{flag} beside {needed}", f"add {needed}")
    if options.elementwise and options.from_triton:
        expected = "one source of the package: a template, or a kernel"
        raise UsageError(
            "--elementwise has no effect beside --from-triton",
            "--elementwise",
            expected,
            "leave out one of the two",
        )


def _domain(options: argparse.Namespace) -> str:
    """The value of --domain, or the default with --from-model. Raises UsageError for options that exclude each other."""
    _check_sources(options)
    if options.from_model is not None:
        if options.node is None:
            expected = "--node with a node's name, an output of it, or its op_type"
            raise UsageError(
                "the node is not named", f"--from-model {options.from_model}", expected, "--node NODE"
            )
        return _EXAMPLE_DOMAIN  # nodes have one of their own
    if options.domain is None:
        expected = "the ONNX domain in which models write the operator"
        raise UsageError(
            "no domain is given", f"trtsmith op new {options.name}", expected, "--domain mycompany"
        )
    return str(options.domain)


def _draft(options: argparse.Namespace, names: Names) -> Draft | None:
    if options.from_model is not None:
        from trtsmith.converter.scaffold.from_model import draft_of_node

        return draft_of_node(names, options.from_model, options.node, options.domain)
    if options.from_triton is not None:
        from trtsmith.converter.scaffold.from_triton import draft_of_kernel

        return draft_of_kernel(
            names, options.from_triton, options.from_torch or "", examples(options.example)
        )
    if options.from_torch is not None:
        from trtsmith.converter.scaffold.from_torch import draft_of_function

        return draft_of_function(names, options.from_torch, examples(options.example))
    return None


def examples(texts: Sequence[str]) -> dict[str, str]:
    """Returns the texts of --example, by name. Raises UsageError for any other form than NAME=VALUE."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            expected = (
                "NAME=VALUE: x=2x3x4 for a tensor, ids=5:int64 for one of another type, window=3 for a number"
            )
            raise UsageError(
                f"{text!r} is not an example", f"--example {text}", expected, "--example x=2x3x4"
            )
        found[name] = value
    return found
