"""Stage: verifies numbers: inputs, tolerances, comparisons and the verdict on them."""

from trtsmith.converter.verify.compare import Comparison, compare
from trtsmith.converter.verify.given import load_expected, load_inputs
from trtsmith.converter.verify.graphs import verify_graphs
from trtsmith.converter.verify.inputs import generate_inputs
from trtsmith.converter.verify.tolerances import TOLERANCE, Tolerances, parse_tolerances
from trtsmith.converter.verify.verdict import Verdict, judge

__all__ = [
    "TOLERANCE",
    "Comparison",
    "Tolerances",
    "Verdict",
    "compare",
    "generate_inputs",
    "judge",
    "load_expected",
    "load_inputs",
    "parse_tolerances",
    "verify_graphs",
]
