"""Writes the three tables of all figures: checked without a GPU, engines on a GPU, speed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from docpages import evidence, network_times, popular_tables, real_networks, record_ages
from docpages.marks import DocumentError, markdown_table
from gpucheck import engine_tables
from popularnetworks.network_trial import BUILDS, PRECISIONS

Words = tuple[str, str]
"""What is said of one, and of several."""

WORDS: Mapping[str, Words] = {
    "agree": ("agrees", "agree"),
    "agrees in part": ("agrees in part", "agree in part"),
    "not comparable": ("is not comparable", "are not comparable"),
    "disagree": ("disagrees", "disagree"),
    "not built": ("is not built", "are not built"),
    "no engine": ("has no engine", "have no engine"),
    "did not run": ("does not run", "do not run"),
}
"""Each verdict, in the order of the tables."""

RIGHT = ("gives ONNX's outputs", "give ONNX's outputs")
NOT_BUILT = ("does not build", "do not build")

SHOWN_NETWORKS = {
    "deformable_detr": "Deformable DETR on 800x1333",
    "bevformer_layer": "A layer of BEVFormer's encoder",
}


WITHOUT_GPU = ("onnx_coverage.json", "real_models.json", "popular_networks.json")
ON_GPU = tuple(
    f"h200/{name}.json" for name in ("engines_onnx", "real_models", "popular_networks", "engines_judged")
)
SPEED = ("h200/real_networks.json", "h200/networks.json")
"""The records behind each table."""


def figures() -> str:
    """The three tables. Each figure is from one record, and the parts of a row add up to its first number."""
    return "\n\n".join(
        (
            "**Checked without a GPU.** TensorRT-RTX 1.7.1 builds the engine; onnxruntime compares the graph that it is "
            f"built from with the original. {record_ages.older_said(*WITHOUT_GPU)}",
            markdown_table(("", "TensorRT-RTX alone", "with trtsmith"), _without_gpu()),
            "**Engines on a GPU.** An NVIDIA H200, which TensorRT-RTX 1.7.1 does not support: the core of 1.6.1 ran the "
            "engines, and 1.7.1's parser read those with plugins. NVIDIA does not offer this pair; it is a test rig. "
            f"{record_ages.older_said(*ON_GPU)}",
            markdown_table(("", "engines of trtsmith"), _on_gpu()),
            "**Speed.** Engines in float16 on the same H200, beside what you would use today. "
            f"{record_ages.older_said(*SPEED)}",
            markdown_table(("", "without trtsmith", "with trtsmith"), _speed()),
        )
    )


def shares(total: int, counts: Sequence[tuple[int, Words]]) -> str:
    """The counts in words, without zeros. Raises DocumentError unless they add up to the total."""
    said = [f"{count:,} {words[count != 1]}" for count, words in counts if count]
    if sum(count for count, _ in counts) != total:
        raise DocumentError(f"{', '.join(said)}: that is not {total:,} in all")
    return ", ".join(said)


def _verdicts(verdicts: Iterable[str]) -> str:
    """The number of networks with each verdict. Raises DocumentError for a verdict that WORDS lacks."""
    found = Counter(verdicts)
    return shares(found.total(), [(found[verdict], words) for verdict, words in WORDS.items()])


def verdicts_of(library: str, networks: str = "") -> Callable[[], str]:
    """A line for each precision in which a library's exports were tried. networks: a pattern of their names."""

    def table() -> str:
        rows = popular_tables.read()["rows"]
        chosen = [row for row in rows if row["library"] == library and re.search(networks, row["network"])]
        lines = []
        for precision in PRECISIONS:
            tried = [
                (row["network"], row["precisions"][precision]["verdict"])
                for row in chosen
                if precision in row.get("precisions", {})
            ]
            others = dict.fromkeys(name for name, verdict in tried if verdict != popular_tables.AGREE)
            verdicts = _verdicts(verdict for _, verdict in tried)
            lines.append((precision, f"{len(tried)}", verdicts, ", ".join(others)))
        return markdown_table(("precision", "exports", "verdicts", "which do not agree"), lines)

    return table


def _without_gpu() -> list[tuple[str, ...]]:
    coverage = evidence.read(evidence.COVERAGE_RECORD)["summary"]
    cases, built, right = (coverage[name] for name in ("about_tensors", "built_rewritten", "passed"))
    operators = shares(
        cases,
        [
            (right, RIGHT),
            (built - right, ("builds and does not", "build and do not")),
            (cases - built, NOT_BUILT),
        ],
    )
    files = real_networks.given()
    rows: list[tuple[str, ...]] = [
        (
            f"ONNX's own tests of operators: {cases:,}",
            _builds(coverage["built_as_is"], cases),
            operators,
        ),
        (
            f"Networks that public packages bring: {len(files)}",
            _builds(sum(file["native"] == real_networks.BUILDS for file in files), len(files)),
            _verdicts(map(real_networks.verdict, files)),
        ),
    ]
    popular = popular_tables.read()["rows"]
    libraries = len({row["library"] for row in popular})
    for precision in ("fp32", "fp16"):
        tried = [row for row in popular if precision in row.get("precisions", {})]
        alone = sum(row["alone"] == BUILDS for row in tried)
        rows.append(
            (
                f"Networks of {libraries} libraries as users export them, {precision}: {len(tried)}",
                _builds(alone, len(tried)) if precision == "fp32" else "",
                _verdicts(row["precisions"][precision]["verdict"] for row in tried),
            )
        )
    return rows


def _builds(built: int, of: int) -> str:
    return shares(of, [(built, ("builds", "build")), (of - built, ("does not", "do not"))])


def _on_gpu() -> list[tuple[str, ...]]:
    tests = Counter(row["verdict"] for row in _step("onnx-tests"))
    right = sum(tests[verdict] for verdict in engine_tables.MATCHED)
    engines = real_networks.engines()
    outputs = engine_tables.judged_outputs(_step("networks"))
    planted = [one["found"] for one in engine_tables.searches(_step("planted")) if one["plant"]]
    popular = popular_tables.on_gpu()
    return [
        (
            f"ONNX's own tests of operators: {tests.total():,}",
            shares(
                tests.total(),
                [
                    (right, RIGHT),
                    (tests["wrong"], ("does not", "do not")),
                    (tests["not built"], WORDS["not built"]),
                    (tests["crashes"], ("ends the process", "end the process")),
                ],
            ),
        ),
        (
            f"Networks that public packages bring, of at most 36 MB: {len(engines)}",
            _verdicts(map(real_networks.verdict, engines)),
        ),
        *(
            (
                f"Networks as users export them, {precision}: {len(found)}",
                _verdicts(row["verdict"] for row in found),
            )
            for precision in ("fp32", "fp16")
            if (found := [row for row in popular if row["precision"] == precision])
        ),
        (
            f"Outputs of {len({row['network'] for row in outputs})} networks, most with plugins, in fp32, fp16 and bf16: "
            f"{len(outputs)}",
            _verdicts(row["status"] for row in outputs),
        ),
        (
            f"Planted errors: {len(planted)}",
            shares(
                len(planted),
                [
                    (sum(planted), ("is traced to its node", "are traced to their node")),
                    (planted.count(False), ("is not", "are not")),
                ],
            ),
        ),
    ]


def _speed() -> list[tuple[str, ...]]:
    rows = [_beside("import half", "`module.half()`, TensorRT"), _beside("compile half", "`torch.compile`")]
    for row, _ in network_times.measured(network_times.read()):
        if row["network"] in SHOWN_NETWORKS and (row["precision"], row["batch"]) == ("fp16", 1):
            ways = row["rows"]
            native = min(ways[way]["median_ms"] for way in ("native", "GridSample") if way in ways)
            mine = ways["plugins"]["median_ms"]
            rows.append(
                (
                    SHOWN_NETWORKS[row["network"]],
                    f"TensorRT, standard operators: {native:.1f} ms",
                    f"{mine:.2f} ms, {native / mine:.1f} times as fast",
                )
            )
    return rows


def _beside(way: str, title: str) -> tuple[str, ...]:
    found = network_times.beside(way)
    return (
        f"{found.networks} networks of real size",
        f"{title}: {_right(found.right, found.networks)}",
        f"{_right(found.ours_right, found.networks)}; {found.time:.2f} of the time (geometric mean over the "
        f"{found.both_right} that both run right)",
    )


def _right(count: int, of: int) -> str:
    return shares(of, [(count, ("right", "right")), (of - count, ("not", "not"))])


def _step(step: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = evidence.newest(step)["steps"][step]["rows"]
    return rows
