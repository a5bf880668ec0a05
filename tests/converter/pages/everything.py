"""Data with something in every section of a conversion's page."""

from __future__ import annotations

from typing import Any

SUMMARY = {"min": 1.0, "median": 1.5, "mean": 1.6, "p90": 1.7, "p99": 1.8, "max": 2.0}
STAGES = ("latency_ms", "enqueue_ms", "h2d_ms", "compute_ms", "d2h_ms", "response_ms")
RUN: dict[str, Any] = dict.fromkeys(STAGES, SUMMARY) | {
    "point": "opt",
    "shapes": {"tokens": [1, 2, 32]},
    "cuda_graph": False,
    "streams": 2,
    "throughput": 900.0,
    "queries": 100,
    "wall_s": 3.0,
    "remarks": ["a remark"],
}
LAYER = {
    "layer": "a + b",
    "ms": 0.5,
    "share": 0.5,
    "type": "MatMul",
    "nodes": ["a made node"],
    "plugin": "Gate",
}
SUMS = [{"type": "MatMul", "plugin": "Gate", "layers": 3, "ms": 0.5, "share": 0.5}]
TRIALS = [
    {
        "flags": "--precision fp16",
        "failed": "",
        "ms": 0.5,
        "error": 1e-3,
        "share_of_bound": 0.9,
        "bytes": 2**20,
    },
    {"flags": "(no flags)", "failed": "", "ms": 1.5, "error": 1e-5, "share_of_bound": 0.01, "bytes": 2**21},
    {
        "flags": "--precision bf16",
        "failed": "",
        "ms": 0.4,
        "error": 1e-2,
        "share_of_bound": 9.0,
        "bytes": 2**20,
    },
    {"flags": "--precision int8", "failed": "TensorRT refuses it"},
]
TUNED = {"best": TRIALS[0], "default": TRIALS[0], "trials": TRIALS}
"""Of a search for the fastest engine."""

VALUE = {
    "name": "v",
    "dtype": "float32",
    "shape": [2],
    "low": 0,
    "high": 1,
    "error": 0.5,
    "reason": "off by much",
}
COMPARISON = {
    "output": "features",
    "dtype": "float32",
    "shape": [2, 3],
    "agrees": False,
    "reason": "too far off",
    "relative": None,
    "max": 1.0,
    "mean": 0.5,
    "p99": 0.9,
    "worst": [1, 2],
    "cosine": 0.5,
    "expected": 1.0,
    "actual": "nan",
    "compared": 6,
    "at": "min 1x2",
}
EVERYTHING: dict[str, Any] = {
    "bench": {
        "runs": [RUN, {**RUN, "unavailable": "no graph"}],
        "layers": {"sum_ms": 1.0, "inferences": 30, "layers": [LAYER], "by_type": SUMS, "by_plugin": SUMS},
        "against": [{"name": "onnxruntime", "unavailable": "not installed"}],
    },
    "located": {
        "sentence": "this node is wrong by itself",
        "nodes": [
            {"name": "a made node", "op_type": "Relu", "original": "", "inputs": [VALUE], "outputs": [VALUE]}
        ],
        "folder": "m.located",
        "advice": ["do so"],
    },
    "verdict": {
        "status": "disagree",
        "reason": "too far off",
        "engine_run": True,
        "inputs": "made up",
        "comparisons": [COMPARISON],
        "meanings": ["taken for token ids"],
        "left_out": [{"output": "z", "why": "output 'z' is not comparable", "accepted": True}],
        "outputs": {COMPARISON["output"]: "disagree", "z": "not compared"},
        "references": [],
        "precision": "fp16",
        "not_run": "",
        "ran": "graphs",
    },
    "precision": {
        "precision": "float16",
        "reduced": 9,
        "beside": 1,
        "casts": 2,
        "kept": [{"node": "a made node", "op_type": "Softmax", "reason": "a norm"}],
    },
    "declined": [
        {
            "node": "n",
            "op_type": "TopK",
            "pass_name": "top-k",
            "fatal": True,
            "refusal": {"reason": "k is computed", "expected": "a constant", "fix": "--freeze k=3"},
        }
    ],
    "frozen": [{"input": "axes", "dtype": "int64", "shape": [1], "value": "[3]"}],
    "io_types": [{"name": "ids", "before": "uint64", "after": "int64"}],
    "mended": [{"mitigation": "split", "does": "it splits", "nodes": [["n", "Loop"]], "said": "no"}],
    "stands": {"a made node": 3},
    "seconds": {"build": 1.5},
    "files": {"m.plan": "sha256:00"},
    "problems": [{"what": "w", "where": "n", "expected": "e", "fix": "f"}],
}
"""Beside the network, of each thing that a page can show one."""
