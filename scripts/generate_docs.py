"""Rewrites the generated parts of README.md and docs/ from definitions, parsers, sources and records.

    python scripts/generate_docs.py            # rewrite
    python scripts/generate_docs.py --check    # exit code 1 if a part is out of date

A part lies between the lines `<!-- generated: NAME -->` and `<!-- end of NAME -->`; docpages/ makes them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from docpages import (  # noqa: E402
    command_line,
    deployment,
    evidence,
    figures,
    house,
    judge_figures,
    keywords,
    messages,
    migrated,
    network_times,
    operator_matrix,
    operators,
    plugin_checks,
    popular_tables,
    python_api,
    real_networks,
    record_ages,
    report_schema,
    rewriting,
    rule_use,
)
from docpages.marks import Parts, refresh  # noqa: E402

_PARTS: Mapping[str, Parts] = {
    "converter/base/options/keywords.pyi": {"": keywords.stub},
    "README.md": {"figures": figures.figures},
    "docs/index.md": {"figures": figures.figures},
    "docs/guides/yolo.md": {"yolo verdicts": figures.verdicts_of("ultralytics")},
    "docs/guides/detr.md": {"detr verdicts": figures.verdicts_of("transformers", "DETR|YOLOS|D-FINE")},
    "docs/guides/classifier.md": {"timm verdicts": figures.verdicts_of("timm")},
    "docs/guides/deploy.md": {"builder's options": deployment.options},
    "docs/guides/plugin-libraries.md": {"plugin checks": plugin_checks.plugin_checks},
    "docs/reference/cli.md": {"command line": command_line.command_line},
    **python_api.pages(),
    "docs/reference/operators.md": {
        "operator families": operators.operators,
        "operators": operators.operator_reference,
        "torch operators": operators.torch_operators,
    },
    "docs/reference/report-json.md": {"report entries": report_schema.entries},
    "docs/reference/faults.md": {"faults": rewriting.faults},
    "docs/reference/messages.md": {
        "messages of the builder": messages.builder_messages,
        "warnings of the builder": messages.builder_warnings,
        "messages of the runtime": messages.loading_messages,
        "operators outside of engines": messages.outside_operators,
    },
    "docs/reference/all-messages.md": {"all messages": messages.all_messages},
    "docs/maintainers/architecture.md": {"phases": rewriting.phases, "budget": house.budget},
    "docs/evidence/index.md": {"figures": figures.figures},
    "docs/evidence/kernels.md": {
        "kernel figures": evidence.kernel_figures,
        "plugin against native": evidence.native_figures,
        "selection of boxes": evidence.selection_figures,
    },
    "docs/evidence/networks.md": {
        "networks": network_times.network_times,
        "layers of networks": network_times.network_layers,
        "networks of real size": network_times.real_sizes,
        "half exports": network_times.half_exports,
        "tuned networks": network_times.tuned_networks,
        "tuned models": lambda: network_times.tuned_networks("tuning_models.json"),
        "repeated runs": network_times.repeated_runs,
    },
    "docs/evidence/operators.md": {"operator matrix": operator_matrix.matrix},
    "docs/evidence/onnx-coverage.md": {"onnx coverage": evidence.onnx_coverage},
    "docs/evidence/real-models.md": {
        "real models": real_networks.real_networks,
        "real engines": real_networks.real_engines,
    },
    "docs/evidence/popular-networks.md": {"popular networks": popular_tables.popular_networks},
    **popular_tables.pages(),
    "docs/evidence/rewriting.md": {
        "rewrite figures": evidence.rewrite_figures,
        "seconds of conversions": evidence.conversion_seconds,
    },
    "docs/evidence/rules.md": {
        "records with names": rule_use.records,
        **{f"needed {kind}": rule_use.of_kind(kind) for kind in rule_use.KNOWN},
    },
    "docs/evidence/judge.md": {
        "right runs": judge_figures.right_runs,
        "planted errors in outputs": judge_figures.planted_errors,
        "models in 16 bits": judge_figures.narrow_types,
    },
    "docs/platforms.md": {"aarch64": evidence.aarch64},
    "docs/evidence/plugin-registries.md": {"plugin registries": evidence.registries},
    "docs/evidence/migrated-plugins.md": {"migrated plugins": migrated.plugins},
    "docs/evidence/gpu-engines.md": {
        "node tests on a GPU": evidence.engines_of("onnx-tests"),
        "rules on a GPU": evidence.engines_of("rules"),
        "random graphs on a GPU": evidence.engines_of("graphs"),
        "networks on a GPU": evidence.engines_of("networks"),
        "planted errors on a GPU": evidence.engines_of("planted"),
        "stress on a GPU": evidence.engines_of("stress"),
        "fused layers on a GPU": evidence.engines_of("layers"),
        "sums of products on a GPU": evidence.engines_of("sums"),
    },
}
DOCUMENTS = {page: {**parts, **record_ages.part_of(page)} for page, parts in _PARTS.items()}
"""The documents with generated parts, and what makes each part."""


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="change nothing")
    options = parser.parse_args(argv)
    stale = [
        name for name, parts in DOCUMENTS.items() if refresh(root / name, parts, write=not options.check)
    ]
    if not options.check:
        return 0
    for name in stale:
        print(f"{name} is out of date: python scripts/generate_docs.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
