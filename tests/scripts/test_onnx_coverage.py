"""The coverage script on a few of ONNX's tests, and its deciding parts."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onnx_coverage
from onnxcoverage.cases import CoverageCase
from onnxcoverage.judge import _fault
from onnxcoverage.record import CaseOutcome, outcomes_of, to_json


@pytest.mark.skipif(not importlib.util.find_spec("tensorrt_rtx"), reason="needs TensorRT-RTX")
def test_a_sample_of_the_suite(tmp_path: Path) -> None:
    """Cases that have to pass, by different ways, and one that is refused; the rest of the sample must not crash."""
    ways = (
        "abs",
        "affine_grid_2d",
        "attention_3d",
        "range_int32_type_negative_delta_expanded",
        "reduce_max_do_not_keepdims_random",
        "sce_mean",
        "split_variable_parts_1d_opset18",
    )
    must = f"test_({'|'.join(ways)})$"
    record = covered(tmp_path, "--cases", must + "|^test_equal_string$")
    assert record["summary"]["rewritten_needlessly"] == 0
    assert record["summary"]["others"] == 1
    assert [case["name"] for case in record["cases"] if not case["passed"]] == []
    met = {case["name"]: case["met"] for case in record["cases"]}
    assert met["test_abs"] == {} and "log-sums" in met["test_sce_mean"]["rules"]
    sample = covered(tmp_path, "--sample", "30", "--seed", "1")
    assert sample["summary"]["crashes_or_hangs"] == 0
    assert [
        case["name"] for case in sample["cases"] if case["changed"] and not (case["as_is"] or case["told"])
    ] == []
    assert sample["summary"]["passed"] >= sample["summary"]["built_as_is"] - 2


def covered(folder: Path, *arguments: str) -> dict[str, Any]:
    file = folder / "record.json"
    assert onnx_coverage.main(["--json", str(file), *arguments]) == 0
    result: dict[str, Any] = json.loads(file.read_text())
    return result


def test_as_a_script_it_finds_its_modules() -> None:
    script = Path(__file__).parents[2] / "scripts" / "onnx_coverage.py"
    there = "import onnxcoverage.cases, harness.jobs, onnxcoverage.record"
    code = f"import runpy; runpy.run_path({str(script)!r}); {there}"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    done = subprocess.run(
        [sys.executable, str(script), "--sample", "many"], stderr=subprocess.PIPE, text=True
    )
    assert done.returncode == 2 and "--sample" in done.stderr


def test_outputs_are_judged_by_the_suites_tolerances() -> None:
    case = CoverageCase("c", "Op", "tensors", None, {}, {}, 1e-3, 1e-7, False)  # type: ignore[arg-type]
    one = np.ones(3, np.float32)
    assert _fault(one * 1.0005, one, case) == ""
    assert _fault(one * 1.002, one, case).startswith("differs")
    assert _fault(one[:2], one, case).startswith("shape")
    assert _fault(np.array([1, np.nan, 1]), one, case).startswith("differs")
    assert _fault(None, one, case) == "no value"
    assert _fault([one, one], [one], case) == "another sequence"


def test_a_case_passes_only_if_it_is_built_and_right() -> None:
    good = CaseOutcome("a", "Add", "tensors", as_is="", rewritten="", numbers="")
    wrong = CaseOutcome("b", "Add", "tensors", as_is="", rewritten="", numbers="differs by 1")
    refused = CaseOutcome("c", "Add", "strings", refused=["no importer"])
    silent = CaseOutcome("d", "Add", "strings")
    assert [o.passed for o in (good, wrong, refused, silent)] == [True, False, True, False]
    record = to_json([good, wrong, refused, silent], {}, 1)
    assert record["summary"]["passed"] == 1 and record["summary"]["built_rewritten"] == 2
    good.changed = True
    assert to_json([good, wrong], {}, 1)["summary"]["rewritten_needlessly"] == 1
    good.told = True
    assert to_json([good, wrong], {}, 1)["summary"]["rewritten_needlessly"] == 0
    good.changed = good.told = False
    assert [o.name for o in outcomes_of(json.loads(json.dumps(record)))] == ["a", "b", "c", "d"]
