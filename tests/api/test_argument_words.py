"""Messages of the public API: they name its arguments as Python writes them, and no flags of the command line."""

from __future__ import annotations

from html import escape
from pathlib import Path

import pytest

import trtsmith
from tests.converter.models import relu, written
from tests.converter.rewrite.precision.networks import normal
from trtsmith.argument_words import ArgumentWords, ZooWords
from trtsmith.convert_function import CONVERSION
from trtsmith.converter.base.options.declared import options_of

WORDS = ArgumentWords(
    {option.name: option.kind for option in options_of(CONVERSION)}, {"fp": "precision", "o": "output"}
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("--keep-fp32 has no effect without --precision", "keep_fp32 has no effect without precision"),
        ("add --precision fp16, or remove --keep-fp32", 'add precision="fp16", or remove keep_fp32'),
        ("--precision fp32 computes it in float32", 'precision="fp32" computes it in float32'),
        ("replace it with --force", "replace it with force=True"),
        ("--no-verify skips it, --no-mend reports it", "verify=None skips it, mend=False reports it"),
        ("--shapes images=1x3x64x64:2x3x64x64:8x3x64x64", 'shapes="images=1x3x64x64:2x3x64x64:8x3x64x64"'),
        ("--target sm86,sm89, or --timeout 5", 'target="sm86,sm89", or timeout=5'),
        ("--calibration samples.npz; --inputs FILE.npz", 'calibration="samples.npz"; inputs="FILE.npz"'),
        ("--fp fp16 alone", 'precision="fp16" alone'),
        ("--freeze 'my axes=[0,1]'", 'freeze="my axes=[0,1]"'),
        ("`trtsmith run ENGINE --list` shows the inputs", "`trtsmith run ENGINE --list` shows the inputs"),
        (
            "trtsmith locate m.onnx --inputs a.npz; or --inputs",
            "trtsmith locate m.onnx --inputs a.npz; or inputs",
        ),
        ("-o a/b.plan exists; -o=x stays", 'output="a/b.plan" exists; -o=x stays'),
        (
            "polygraphy surgeon prune MODEL -o PRUNED, then --target sm86",
            'polygraphy surgeon prune MODEL -o PRUNED, then target="sm86"',
        ),
        ("--nonsense stays, and so does a--force", "--nonsense stays, and so does a--force"),
    ],
)
def test_flags_become_arguments(text: str, said: str) -> None:
    assert WORDS.said(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "compare with real inputs: --inputs FILE.npz, which",
            'compare with real inputs: inputs = "FILE.npz", which',
        ),
        ("or leave --io-precision out; --no-mend", "or leave io-precision = true out; mend = false"),
        ("without a verdict (--no-verify)", "without a verdict (no-verify = true)"),
        ("--atol y:0.3 accepts it", 'atol = "y:0.3" accepts it'),
        (
            "trtsmith locate MODEL --precision fp16 finds it",
            "trtsmith locate MODEL --precision fp16 finds it",
        ),
    ],
)
def test_flags_become_keys_of_a_zoo(text: str, said: str) -> None:
    words = ZooWords({option.name: option.kind for option in options_of(CONVERSION)}, {})
    assert words.said(text) == said


def test_errors_and_results_name_arguments(tmp_path: Path) -> None:
    model = relu(tmp_path / "m.onnx", ("n", 3))
    (tmp_path / "e.plan").write_text("mine")
    with pytest.raises(trtsmith.UsageError) as caught:
        trtsmith.convert(model, tmp_path / "e.plan", shapes={"x": (1, 3)})
    assert "force=True" in str(caught.value) and "--" not in str(caught.value)
    axes = "(float[2,3] x, int64[1] axes) => (float[2,1] y) { y = ReduceMean (x, axes) }"
    (problem,) = trtsmith.check(written(tmp_path / "axes.onnx", axes, opset=18)).problems
    assert 'freeze="axes=' in problem.fix and "--" not in problem.fix
    text = (
        "(float[2,8] x) => (float[2,8] y) { a = MatMul (x, w) b = Softmax <axis = 0> (a) y = MatMul (b, w) }"
    )
    model = written(tmp_path / "p.onnx", text, {"w": normal(8, 8)})
    done = trtsmith.convert(model, precision="fp16", target="sm86", verify="graph")
    (warning,) = (text for text in done.warnings if "generated inputs only" in text)
    assert f"\nwarning: {warning}" in str(done) and "warning:" not in repr(done)
    assert warning.endswith('inputs="FILE.npz" tries them')
    assert "\nnext:" not in repr(done)  # it agrees
    nothing = "(float[2,3] x) => (float[2,3] y) { a = Exp (x) b = Neg (a) y = Log (b) }"
    done = trtsmith.convert(written(tmp_path / "nan.onnx", nothing), target="sm86", verify="graph")
    step = repr(done).split("\n")[1]
    assert step.startswith("next:    ") and 'inputs="FILE.npz"' in step and "--" not in step
    assert f"<td>next</td><td>{escape(step[9:])}</td>" in done._repr_html_()
