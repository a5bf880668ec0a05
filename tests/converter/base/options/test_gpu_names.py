"""GPU names as people and drivers write them."""

from __future__ import annotations

import re

import pytest

from trtsmith.converter.base.options.gpu_names import GPUS, as_targets, gpus_of, nearest_gpus, target_of_gpu


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("rtx4090", "sm89"), ("RTX 4090", "sm89"), ("rtx-4090", "sm89"), ("RTX_4090", "sm89"), ("GeForce RTX 4090", "sm89"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "sm89"), ("RTX 4070 Ti SUPER", "sm89"), ("l4", "sm89"), ("L40S", "sm89"),
        ("rtx5090", "sm120"), ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "sm120"), ("orin", "sm87"),
        ("Jetson Orin", "sm87"), ("agx orin", "sm87"), ("NVIDIA Jetson Orin Nano", "sm87"), ("xavier", "sm72"),
        ("a100", "sm80"), ("NVIDIA A100-SXM4-80GB", "sm80"), ("A30", "sm80"), ("a10", "sm86"), ("rtx3090", "sm86"),
        ("RTX A6000", "sm86"), ("RTX 6000 Ada Generation", "sm89"), ("Quadro RTX 6000", "sm75"), ("t4", "sm75"),
        ("Tesla T4", "sm75"), ("Tesla V100-SXM2-32GB", "sm70"), ("h100", "sm90"), ("NVIDIA H100 80GB HBM3", "sm90"),
        ("H200", "sm90"), ("b200", "sm100"), ("gb200", "sm100"), ("DGX Spark", "sm121"), ("thor", "sm110"),
        ("gtx1080", "sm61"), ("Tesla P100-PCIE-16GB", "sm60"), ("sm86", "sm86"), ("SM_86", "sm86"),
        ("8.9", "sm89"), ("compute_86", "sm86"), (" 12.0", "sm120"), ("sm1", "sm1"),
    ],
)  # fmt: skip
def test_names(name: str, target: str) -> None:
    assert target_of_gpu(name) == target


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "rtx4091",
        "rtx6000",
        "rtx",
        "super",
        "nvidia",
        "sm",
        "smx",
        "gpu",
        "86",
        "8.",
        "a.8.9",
        "sm８６",
        "cpu",
    ],
)
def test_what_is_no_name_or_one_of_several(name: str) -> None:
    assert target_of_gpu(name) is None


def test_the_table_gives_each_name_one_target() -> None:
    for target, names in GPUS.items():
        assert re.fullmatch(r"sm\d+", target) and len(set(names)) == len(names)
        for name in names:
            assert target_of_gpu(name) == target, name


def test_what_may_have_been_meant() -> None:
    assert nearest_gpus("3090") == ["RTX 3090", "RTX 3090 Ti"]
    assert nearest_gpus("rtx4091")[0] == "RTX 4090"
    assert nearest_gpus("rtx4090ti")[0] == "RTX 4090" and nearest_gpus("h100x") == ["H100"]
    assert nearest_gpus("rtx2080tix")[:2] == ["RTX 2080 Ti", "RTX 2080"]
    assert {"Quadro RTX 6000", "RTX 6000 Ada"} <= set(nearest_gpus("rtx6000"))
    assert nearest_gpus("zzzz") == [] == nearest_gpus("nvidia")
    assert nearest_gpus("jetson") == ["Jetson Thor", "Jetson Orin"] and nearest_gpus("dgx") == ["DGX Spark"]


def test_lists_and_messages() -> None:
    assert as_targets(["L4", "rtx4090", "SM86", "what"]) == ("sm89", "sm86", "what")
    assert gpus_of("sm90") == "H100, H200, GH200" and gpus_of("sm1") == ""
