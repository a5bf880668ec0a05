"""A report's names are those of its rewrites, plugins and mitigations, each once."""

from __future__ import annotations

from typing import Any

from harness.names_met import names_met, together


def rewrite(op_type: str, *names: str) -> dict[str, Any]:
    return {"op_type": op_type, "pass_name": ", ".join(names)}


def test_names_are_sorted_and_stand_once() -> None:
    report = {
        "rewrites": [
            rewrite("mmdeploy::MMCVDeformConv2d", "aliases", "types"),
            rewrite("TopK", "top-k"),
            rewrite("TopK", "top-k", "types"),
        ],
        "plugins": [{"name": "TopElements"}, {"name": "DeformableConvolution"}, {"name": "TopElements"}],
        "mended": [{"mitigation": "identities"}],
    }
    assert names_met(report) == {
        "rules": ["aliases", "top-k", "types"],
        "aliases": ["mmdeploy::MMCVDeformConv2d"],
        "operators": ["DeformableConvolution", "TopElements"],
        "mitigations": ["identities"],
    }


def test_a_failed_conversion_names_nothing() -> None:
    assert names_met({"converted": False, "problems": [{"what": "no importer"}]}) == {}


def test_conversions_of_one_network_are_joined() -> None:
    fp32, fp16 = {"rules": ["resize", "types"]}, {"rules": ["half-means", "types"], "operators": ["A"]}
    assert together(fp32, {}, fp16) == {"rules": ["half-means", "resize", "types"], "operators": ["A"]}
