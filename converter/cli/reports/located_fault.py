"""Prints the result of `trtsmith locate`."""

from __future__ import annotations

from trtsmith.converter.cli.console import one_line, table
from trtsmith.converter.cli.reports.comparison import render_comparisons
from trtsmith.converter.locate.found import FUSION, Located, NodeReport, SharedTensor, TensorReport
from trtsmith.converter.verify.allowance import WORDS
from trtsmith.importers.counted import counted

SKIPPED_SHOWN = 5
SHARING_SHOWN = 6


def render(found: Located) -> str:
    """The verdict, the node with its tensors, its saved file, the next step, and what could not be compared."""
    lines = [f"verdict: {found.sentence}"]
    compared = "the original" if found.emulated else f"onnxruntime: {counted(len(found.values), 'value')}"
    lines.append(f"  {found.against} against {compared} (inputs: {one_line(found.inputs)})")
    if found.is_range:
        first, last = found.nodes[0], found.nodes[-1]
        lines.append(f"nodes: from {_node(first)} to {_node(last)}, in the model's order")
        lines.append("  with values between nodes as outputs the error is gone")
    else:
        if found.status == FUSION:
            lines.append("where the error comes up first, in an engine with values between nodes as outputs:")
        for node in found.nodes:
            lines += _told(node)
    for shared in found.shared:
        lines += _told_shared(shared)
    if found.precision:
        lines.append(f"precision: {WORDS[found.precision]}")
    if found.outputs:
        lines += ["outputs that disagree:", render_comparisons(found.outputs)]
    if found.growth:
        lines.append("where errors grow the most:")
        rows = [("node", "operator", "error before", "error after")]
        rows += [(g.name, g.op_type, f"{g.before:.1e}", f"{g.after:.1e}") for g in found.growth]
        lines.append(table(rows))
    if found.kernel:
        lines.append(f"kernel alone, through the plugin host: {one_line(found.kernel)}")
    if found.folder:
        lines.append(f"saved: {one_line(found.folder)} (README.txt there says how to see it again)")
    lines += [f"what to do: {one_line(sentence)}" for sentence in found.advice]
    if found.skipped:
        lines.append(f"not compared: {counted(len(found.skipped), 'value')}")
        lines += [f"  {one_line(name)}: {one_line(reason)}" for name, reason in found.skipped[:SKIPPED_SHOWN]]
        if len(found.skipped) > SKIPPED_SHOWN:
            lines.append("  ... all in --json")
    return "\n".join(lines)


def _node(node: NodeReport) -> str:
    return f"{one_line(node.name)} ({one_line(node.op_type)})"


def _told(node: NodeReport) -> list[str]:
    lines = [f"node: {_node(node)}"]
    if node.original:
        lines.append(f"  stands for {one_line(node.original)}")
    if node.attributes:
        told = ", ".join(f"{k}={v}" for k, v in node.attributes.items())
        lines.append(f"  attributes: {one_line(told)}")
    if node.behind:
        names = ", ".join(map(one_line, node.behind))
        lines.append(f"  or one of those before it whose values cannot be outputs: {names}")
    rows: list[tuple[str, ...]] = [("", "tensor", "type", "shape", "range", "error")]
    rows += [_row("in", tensor) for tensor in node.inputs]
    rows += [_row("out", tensor) for tensor in node.outputs]
    lines.append(table(rows))
    if node.alone is not None:
        lines.append(
            "  alone in an engine it is wrong, too"
            if node.alone
            else "  alone in an engine it is right: it is wrong together with its neighbours only"
        )
    return lines


def _told_shared(shared: SharedTensor) -> list[str]:
    """Lines on a tensor that may be updated in place while others still read it."""
    constant = "" if shared.fill is None else f", a constant of {shared.fill:g} everywhere,"
    lines = [f"shared: {one_line(shared.name)}{constant} is read by {one_line(shared.node)}"]
    if shared.times > 1:
        lines[0] += f" as {shared.times} of its inputs"
    if shared.readers:
        lines.append(f"  and by {_some(shared.readers)}")
    if shared.equal:
        lines.append(f"  equal constants, which TensorRT may keep once: {_some(tuple(shared.equal))}")
        readers = tuple(dict.fromkeys(name for names in shared.equal.values() for name in names))
        lines += [f"  which are read by {_some(readers)}"] if readers else []
    return lines


def _some(names: tuple[str, ...]) -> str:
    """The first names, and the number of further ones."""
    more = len(names) - SHARING_SHOWN
    told = ", ".join(map(one_line, names[:SHARING_SHOWN]))
    return f"{told} and {more} more" if more > 0 else told


def _row(kind: str, tensor: TensorReport) -> tuple[str, ...]:
    shape = "x".join(map(str, tensor.shape)) or "scalar"
    limits = "none finite" if tensor.low is None else f"{tensor.low:.4g} to {tensor.high:.4g}"
    error = "" if tensor.error is None else f"{tensor.error:.1e}"
    return (f"  {kind}", tensor.name, tensor.dtype, shape, limits, tensor.reason or error)
