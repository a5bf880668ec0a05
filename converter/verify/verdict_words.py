"""Makes sentences of a verdict's data: its reason, and the advice."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, isfinite, isinf, log10
from pathlib import Path
from shlex import join, quote

from trtsmith.converter.model.model_bytes import ModelBytes
from trtsmith.converter.rewrite.precision.formats import FORMATS, FP16
from trtsmith.converter.verify.compare import Comparison
from trtsmith.converter.verify.cost.precision_cost import PrecisionCost
from trtsmith.converter.verify.findings import ALWAYS_EMPTY, INFINITE_WEIGHTS, NAN_GIVEN, NOT_FINITE, Finding

_EXPORTED_FILE = "model.onnx"

_LEFT: Mapping[str, str] = {
    "said": "{text}",
    "reshaped": "its shape is {shape}, and {other} when values are rounded to {type}",
    "amplified": "the network amplifies rounding: rounding to {type} alone changes it by {changed:.1%}, so it may differ by "
    "{allowed:.1%}",
    "ill-conditioned": "rounding values to {type} alone changes it by {changed:.0%}",
    "rows lost": "when values alone are rounded to {type}, {matched}",
    "few rows match": "{matched}",
    "off as by rounding": "{reason}; rounding alone does the same{rounding}",
    "random": "{op_type} {node!r} draws random numbers",
    "overflow": "overflow at {node} ({op_type}): {size:.1e}, {type} holds {limit:.6g}",
    "underflow": "all of {node} ({op_type}) vanishes: at most {size:.1e}, {type} holds {limit:.0e}",
    "own type: infinite": "the model's own {type} makes {count} of {of} elements infinite or NaN, which float32 does not",
    "own type: changed": "the model's own {type} changes it by {changed:.0%} against float32",
    "trivial": "{nothing}, in the reference too",
    NOT_FINITE: "{nothing}, in the reference too",
    "unchanging": "it is the same for {draws} generated inputs",
    "branch not taken": "it comes from the {branch} of If node {node!r}, which the inputs do not take",
}
"""By kind, why an output is not comparable, or why agreement proves little: clauses of which the output is the subject."""

_BEFORE: Mapping[str, str] = {
    "sizes compared": "{ran} of {of} sizes compared",
    "outputs compared": "{compared} of {of} outputs compared",
    "reduced": "in {type} against the original",
    "sums emulated": "its sums emulated",
    "calibrated": "in {type} against the calibrated graph",
    "own graph in 8 bits": "against the graph in {type}",
}
"""By kind, what stands before everything that was found."""

_INSTEAD: Mapping[str, str] = {
    "not run": "the {which}: {what}",
    "engine not run": "the engine could not be run: {what}",
    "own graph": "the engine's graph is the model's own, which needed no rewrite",
}
"""By kind, what stands in the place of the largest error."""

_AFTER: Mapping[str, str] = {
    "plugin not run": "the plugin of {operators} itself was not run",
    "before calibration": "before calibration: largest relative error {error:.1e}",
    "graphs agree": "the graphs agree: largest relative error {error:.1e}",
    "graphs unknown": "the graph is unknown: {text}",
    "own definition": "onnxruntime has no {operators}: both sides use trtsmith's definition of it",
    "fused": "onnxruntime fuses quantised operators into {operators}: the reference has its rounding, since it cannot run "
    "without the fusion",
    "other sizes": "at the {ends} sizes{graphs} {error:.1e}",
    "other profiles": "in {ends}{graphs} {error:.1e}",
    "size failed": "at {where}, {what}",
    "size not compared": "{where}, was not compared: {what}",
    "cost unknown": "the cost of {type} is unknown: {what}",
}
"""By kind, what follows the largest error."""

NOTES: Mapping[str, str] = {
    "unsteady": "the engine gives other numbers for {output!r} each time it runs on the same inputs, up to {off:.1e} apart: "
    "the fault is in kernels, TensorRT's or a plugin's, not in the graph",
    "moved by inputs": "inputs that differ by {by:.0e} of themselves, as rounding in float32 makes them, change "
    "{output!r}{place} by {changed:.1e} in onnxruntime, too: for these inputs the network is ill-conditioned",
    "original differs": "the exported model itself differs from the expected {output!r} by {changed:.1e} in onnxruntime, "
    "too: probably {cause}",
    "original reshaped": "the exported model itself gives {output!r} in the shape {shape} in onnxruntime, too: "
    "probably {cause}",
    "package differs": "onnxruntime computes {operators} as {files} does, which may be another computation than the one "
    "that made the expected outputs",
    "definition differs": "with trtsmith's definition of {operators}, onnxruntime gives another {output!r}{place}, too",
    "lost constant": "no input changes {output!r}: {node} ({op_type}) {how} in float16, which holds 6e-08 to 65504; a "
    "number beyond that becomes 0 or infinity when the model is exported",
    **dict.fromkeys((INFINITE_WEIGHTS, NAN_GIVEN, ALWAYS_EMPTY), "{told}"),
}
"""By kind, what is to be known of the engine or of the reference: lines of their own."""

SENTENCES: Mapping[str, str] = {**_BEFORE, **_INSTEAD, **_AFTER, **NOTES}
"""By kind, the sentence of a finding that is not about an output that was left out."""

_EXPORTED = "export the model in float32, and convert it with --precision {precision}, which keeps such nodes in float32"
"""What helps against a model's own 16-bit type: of the 30 networks of scripts/judgeproof/narrow_networks.py that it does not
hold, all agree then. With --precision fp32 the expected outputs of a 16-bit module are still the overflowed ones.
"""

_FIXES: Mapping[str, str] = {
    **dict.fromkeys(
        ("overflow", "underflow", "own type: infinite", "own type: changed"),
        f"{_EXPORTED}; if you cannot, give --precision {{precision}} or fp32 with this file",
    ),
    "random": "make the numbers an input of the model, or convert without a verdict (--no-verify)",
    "not run": "{fix}",
    "engine not run": "{fix}",
    "runs at": "narrow the profile to what runs ({flags}), or export the model anew",
    "sizes apart": "{told}: give both one size ({flags})",
    "profiles that fail": "leave out {profiles}, or export the model anew",
    "cost unknown": "give other samples to --calibration",
    "unsteady": "use another --precision, whose kernels are others, or another TensorRT",
    "package differs": "check that {files} computes {operators} as your framework does, or how the expected outputs were "
    "made: the exported model gives others",
    **dict.fromkeys(("original differs", "original reshaped"), "{fix}"),
    "definition differs": "check your function of {operators}: trtsmith's definition gives other values",
    **dict.fromkeys(
        ("lost constant", INFINITE_WEIGHTS),
        "export the model in float32, and convert it with --precision fp16",
    ),
    "functions alone": "check your function of {operators}, and the plugin: nothing else computes it",
    "own definition": "compare with your framework: {reference}, or --inputs FILE.npz --expected FILE.npz",
    "fused": "compare with your framework: --inputs FILE.npz --expected FILE.npz",
}
"""By kind, what to do about it."""

_NO_SEARCH = (
    "unsteady",
    "not run",
    "package differs",
    "original differs",
    "original reshaped",
    "definition differs",
    "functions alone",
)
"""Kinds with which a search for the faulty node leads nowhere: it compares with onnxruntime and trtsmith's definitions."""

_OTHER_INPUTS: Mapping[str, str] = {
    "branch not taken": "give inputs that take it",
    "trivial": "give inputs for which it is not",
    NOT_FINITE: "give inputs for which it is not",
    "unchanging": "give inputs that change it",
}
"""By kind, which inputs would do."""

_CAUSES: Mapping[str, str] = {NOT_FINITE: NAN_GIVEN, "trivial": ALWAYS_EMPTY}
"""By kind, the finding that says what else would do."""

_MANY_UNMATCHED = 0.1
"""Share of a selection above which real inputs are asked for. A choice, not a measurement: scores of generated inputs are
often nearly equal.
"""

_NARROW = ("fp16", "bf16", "int8", "fp8")
"""Types that --precision fp32 is wider than."""

_MOST_SAID = 3
"""Comparisons that disagree, and inputs, that a sentence names."""

_NO_ENGINE: Mapping[str, str] = {
    "graphs": "the graph from which the engine is built was run in onnxruntime; the engine itself was not run",
    "original": "the original was run in onnxruntime; neither the graph from which the engine is built nor the engine was",
    "nothing": "neither the graph from which the engine is built nor the engine was run",
}


def in_words(status: str, basis: Sequence[str]) -> str:
    """Words the status as people read it everywhere, with what it rests on: agree (graph only; own definition)"""
    return f"{status} ({'; '.join(basis)})" if basis and status != "not comparable" else status


def told_run(ran: str, not_run: str) -> str:
    """Says what ran instead of the engine, one of RAN, and why."""
    return _NO_ENGINE[ran] + (f": {not_run}" if not_run else "")


@dataclass(frozen=True)
class Told:
    """The data that the words of a verdict are made of.

    outputs: the status of each. left: why outputs were left out, and whether the user accepts that.
    """

    comparisons: Sequence[Comparison]
    outputs: Mapping[str, str]
    left: Sequence[tuple[Finding, bool]]
    findings: Sequence[Finding]
    cost: PrecisionCost | None
    engine_run: bool


def sentence(one: Finding) -> str:
    """Words the finding; for an output that was left out, that it is not comparable, and why."""
    if one.kind in SENTENCES:
        return _filled(SENTENCES[one.kind], one)
    place = f"at {one.at}, " if one.at else ""
    return f"{place}output {one.output!r} is not comparable: {_filled(_LEFT[one.kind], one)}"


def notes(findings: Sequence[Finding]) -> tuple[str, ...]:
    """Lists remarks on the engine and the reference, one sentence each."""
    return tuple(dict.fromkeys(sentence(one) for one in findings if one.kind in NOTES))


def reason(told: Told) -> str:
    """Words the findings in one sentence; `advice` says what to do about them."""
    wrong = [f"{c.output}{_place(c.at)}: {c.reason}" for c in told.comparisons if not c.agrees]
    before = [*(() if wrong else _counted(told)), *_of(told, _BEFORE)]
    main = [
        *_first(wrong, _MOST_SAID, "more comparisons disagree"),
        *(() if wrong else (*_agreeing(told), *_accepted(told))),
    ]
    text = "; ".join([*main, *_after(told)])
    costs = "" if wrong or told.cost is None else told.cost.headline()
    return "; ".join(filter(None, (costs, f"{', '.join(before)}: {text}" if before else text)))


def advice(told: Told) -> str:
    """Names one thing that changes the verdict or strengthens it; "" for a plain agreement."""
    return next(filter(None, _advised(told)), "")


def with_files(advice: str, model: object, engine: object, flags: Sequence[str] = ()) -> str:
    """The advice with the user's files and flags in its command. A PyTorch model is exported first."""
    found = re.match(r"trtsmith locate MODEL( ENGINE)?( --precision \w+)?", advice)
    if found is None or isinstance(model, ModelBytes):
        return advice
    is_file = isinstance(model, Path)
    graph = [str(engine)] if found[1] else (found[2] or "").split()
    first = "" if is_file else f"convert it with --save-onnx {_EXPORTED_FILE}, then "
    words = ["trtsmith", "locate", str(model) if is_file else _EXPORTED_FILE, *graph, *flags]
    return first + join(words) + advice[found.end() :]


def _advised(told: Told) -> Iterator[str]:
    """What could be done, the best first."""
    if any(not c.agrees for c in told.comparisons):
        yield from _of_disagreement(told)
        return
    if told.cost is not None:
        yield told.cost.advice()
    yield from (
        _filled(_FIXES[one.kind], one)
        for one in told.findings
        if one.kind in ("lost constant", INFINITE_WEIGHTS)
    )
    yield _about_left(told)
    yield _about_unmatched(told)
    for one in told.findings:
        yield _filled(_FIXES.get(one.kind, ""), one)


def _of_disagreement(told: Told) -> Iterator[str]:
    """What could be done where an output disagrees. Graphs in 8 bits cannot be searched: layers are kept in float32."""
    kinds = {one.kind: one for one in told.findings}
    if beyond := [c for c in told.comparisons if not c.agrees and _overflows(c)]:
        end = f"float16 ends at {FP16.largest:.5g}"
        yield f"{end}: leave --io-precision out, or use --precision bf16 for {beyond[0].output!r}"
    if infinite := next((c for c in told.comparisons if not c.agrees and _is_finite_alone(c)), None):
        yield (
            f"the values expected of {infinite.output!r} are not finite, and the graph's are: a module in float16 overflows "
            "so; give it in float32, and convert with --precision fp16"
        )
    yield from (_filled(_FIXES[kind], kinds[kind]) for kind in _NO_SEARCH if kind in kinds)
    if "moved by inputs" in kinds:
        yield _with_inputs(told, "compare with real inputs")
    if told.cost is not None:
        yield told.cost.advice()
    elif "cost unknown" not in kinds:
        if "reduced" in kinds and not told.engine_run:
            precision = kinds["reduced"].figures["type"]
            yield f"trtsmith locate MODEL --precision {precision} finds the nodes to keep in float32"
        yield f"trtsmith locate MODEL{' ENGINE' if told.engine_run else ''} finds the faulty node"


def _overflows(c: Comparison) -> bool:
    """Whether the output is infinite where the expected number is beyond float16."""
    if c.actual is None or c.expected is None:
        return False
    return isinf(c.actual) and FP16.largest < abs(c.expected) < inf


def _is_finite_alone(c: Comparison) -> bool:
    """Whether the output is a number where the expected value is NaN or infinite."""
    return c.actual is not None and c.expected is not None and isfinite(c.actual) and not isfinite(c.expected)


def _about_left(told: Told) -> str:
    """What to do about outputs that could not be compared and are not accepted. That may be to accept them."""
    left = [one for one, accepted in told.left if not accepted]
    if not left:
        return ""
    text = _about(left, told)
    failed = any(one.kind == "size failed" for one in told.findings)
    if failed or "agree" not in told.outputs.values():
        return text
    flags = " ".join(f"--not-compared {quote(one.output)}" for one in left)
    return f"{text}; or accept that: {flags}"


def _about_unmatched(told: Told) -> str:
    """What to do where much of a selection agrees only because rounding may decide it so for generated inputs."""
    worst = max(told.comparisons, key=lambda c: c.unmatched, default=None)
    if worst is None or worst.unmatched <= _MANY_UNMATCHED or not _generated(told):
        return ""
    lead = f"{worst.unmatched:.0%} of {worst.output!r} does not match the reference, which rounding explains here"
    return _with_inputs(told, f"{lead}; compare with real inputs")


def _about(left: Sequence[Finding], told: Told) -> str:
    """What to do about outputs that could not be compared, of which the first says why."""
    one = left[0]
    # --precision fp32 leaves the types of outputs, and what a module in float16 gave
    if one.figures.get("is_output") or one.figures.get("given"):
        return _filled(_EXPORTED, one)
    if one.kind in _OTHER_INPUTS:
        fixes = [cause.figures["fix"] for cause in told.findings if cause.kind == _CAUSES.get(one.kind)]
        return fixes[0] if fixes else _with_inputs(told, _OTHER_INPUTS[one.kind])
    if one.kind in _FIXES:
        return _filled(_FIXES[one.kind], one)
    if _generated(told):
        return _with_inputs(told, "compare with real inputs")
    off = {other.output: other.figures["off"] for other in left if "off" in other.figures}
    numbers = {name: "NUMBER" if isinf(number) else _rounded_up(number) for name, number in off.items()}
    accepted = " ".join(f"--atol {quote(f'{name}:{number}')}" for name, number in numbers.items())
    if accepted:
        known = "NUMBER" not in numbers.values()
        accepted = (
            f"{accepted} accepts these differences" if known else f"say what it may differ by: {accepted}"
        )
    reduced = next((other.figures["type"] for other in told.findings if other.kind == "reduced"), "")
    other = "convert with --precision fp32" if one.figures.get("type", reduced) in _NARROW else ""
    if one.figures.get("quantised"):
        other = "compare the network before its quantisation"
    return "; or ".join(filter(None, (accepted, other))) or _with_inputs(told, "compare with other inputs")


def _rounded_up(number: float) -> str:
    """The number with two digits that count, and no smaller."""
    if number <= 0:
        return "0"
    unit = 10.0 ** (floor(log10(number)) - 1)
    return f"{ceil(number / unit) * unit:.2g}"


def _generated(told: Told) -> Mapping[str, str]:
    """The types of generated inputs by name."""
    return next((one.figures["inputs"] for one in told.findings if one.kind == "generated"), {})


def _with_inputs(told: Told, lead: str) -> str:
    """Asks for inputs, and says how a file of them is made where none was given."""
    made = dict(list(_generated(told).items())[:_MOST_SAID])
    if not made:
        return f"{lead}: --inputs FILE.npz"
    plain = all(name.isidentifier() for name in made)
    arrays = ", ".join(f"{n}={n}" for n in made) if plain else f"**{dict.fromkeys(made, 'ARRAY')}"
    types = ", ".join(f"{name} {dtype}" for name, dtype in made.items())
    return f"{lead}: --inputs FILE.npz, which np.savez('FILE.npz', {arrays}) makes of {types}"


def _of(told: Told, kinds: Mapping[str, str]) -> list[str]:
    """The sentences of findings of these kinds."""
    return [sentence(one) for one in told.findings if one.kind in kinds]


def _after(told: Told) -> list[str]:
    """What follows the largest error. An output that was left out already is not named again at another size."""
    left = {one.output for one, _ in told.left}
    open_ = [one for one in told.findings if one.kind in _LEFT and one.output not in left]
    little = [f"{o.output!r} proves little: {_filled(_LEFT[o.kind], o)}" for o in open_ if not o.at]
    elsewhere = [sentence(one) for one in open_ if one.at]
    return [
        *sorted(little),
        *_of(told, _AFTER),
        *_first(elsewhere, 1, "more outputs are not comparable there"),
    ]


def _counted(told: Told) -> Iterator[str]:
    """How many outputs were compared, where some others were not."""
    statuses = told.outputs.values()
    compared = sum(status == "agree" for status in statuses)
    if compared and any(status == "not comparable" for status in statuses):
        yield _BEFORE["outputs compared"].format(compared=compared, of=len(statuses))


def _agreeing(told: Told) -> Iterator[str]:
    """The largest error, what selections give, and what was left out."""
    instead = _of(told, _INSTEAD)
    elsewhere = {at for one in told.findings for at in one.figures.get("places", ())}
    agreed = [c for c in told.comparisons if told.outputs[c.output] == "agree" and c.at not in elsewhere]
    yield from instead or _errors(told, agreed)
    left = [sentence(one) for one, accepted in told.left if not (agreed and accepted)]
    yield from _first(left, 1, "more outputs are not comparable")
    if not (instead or agreed or left):
        yield "no output was compared"


def _accepted(told: Told) -> Iterator[str]:
    """How many outputs the user need not have compared."""
    if count := sum(accepted for _, accepted in told.left):
        yield f"{count} not compared, as accepted"


def _errors(told: Told, agreed: Sequence[Comparison]) -> Iterator[str]:
    """The largest error of outputs that agree, and what is the same of those that a selection makes."""
    if not agreed:
        return
    worst = max(agreed, key=lambda c: c.relative)
    grown = [
        one for one in told.findings if one.kind == "grown" and one.output == worst.output and worst.relative
    ]
    more = " in {output!r}, of which rounding alone changes {changed:.1e}: the network amplifies it"
    yield "".join([f"largest relative error {worst.relative:.1e}", *(_filled(more, one) for one in grown)])
    yield from dict.fromkeys(f"{c.output}{_place(c.at)}: {c.meaning}" for c in agreed if c.meaning)


def _first(sentences: Sequence[str], most: int, words: str) -> Iterator[str]:
    yield from sentences[:most]
    if len(sentences) > most:
        yield f"{len(sentences) - most} {words}"


def _place(at: str) -> str:
    return f" at {at}" if at else ""


def _filled(text: str, one: Finding) -> str:
    """The text with the finding's figures."""
    names = {name: value for name, value in one.figures.items() if name in ("operators", "files", "profiles")}
    listed = {name: ", ".join(_first(value, _MOST_SAID, "more")) for name, value in names.items()}
    first = names.get("operators", [""])[0].rpartition(":")[2]
    flags = {fmt.name: fmt.flag for fmt in FORMATS.values()}
    figures = {"precision": flags.get(one.figures.get("type", ""), ""), **one.figures, **listed}
    figures["reference"] = f"--reference {quote(first)}=MODULE:FUNCTION"
    return text.format(output=one.output, place=_place(one.at), **figures)
