"""Stage: do the numbers agree? Inputs, tolerances, comparisons and the verdict on them."""

from converter.verify.compare import Comparison, compare
from converter.verify.given import load_expected, load_inputs
from converter.verify.graphs import verify_graphs
from converter.verify.inputs import generate_inputs
from converter.verify.tolerances import TOLERANCE, Tolerances, parse_tolerances
from converter.verify.verdict import Verdict, judge

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
