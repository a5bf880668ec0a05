"""The table of records: how each is made, on which sources its figures depend, and the pages that show them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from freshness.sources import ROOT, Part

BENCHMARKS = ROOT / "benchmarks"
README = "README.md"

RULES = Part("rules", ("converter/rewrite/*",))
OPERATORS = Part("definitions of operators", ("importers/*",))
JUDGE = Part("judge", ("converter/verify/*",))
SEARCH = Part("search for a wrong node", ("converter/locate/*",))
BUILDER = Part("builder", ("converter/engine/builder/*",))
ADAPTERS = Part("adapters of plugins", ("plugins_cpp/trt/*", "plugins_cpp/core/*", "plugins_cpp/ops/*"))
HOST = Part("plugin host", ("plugins_cpp/host/*", "converter/plugin/host/*"))
CHECKS = Part(
    "checks of plugins",
    ("converter/plugin/checks/*", "converter/plugin/c*s.py", "converter/plugin/contract.py"),
)
BENCH = Part("bench of kernels", ("converter/plugin/bench/*",))
EXAMPLES = Part("examples of rules", ("tests/rule_examples/*",))
MIGRATION = Part("migration", ("converter/scaffold/*", "importers/declared/*"))
EVERY_KERNEL = Part("kernels", operators=())

CONVERSION = (RULES, OPERATORS, JUDGE)
"""Decides the verdict on a network without a GPU."""
ENGINE = (*CONVERSION, EVERY_KERNEL)
"""Decides the verdict on an engine."""


_MET = "harness/names_met.py"


def _kernels(*operators: str) -> Part:
    return Part("kernels", operators=operators)


def _script(*names: str) -> Part:
    return Part("script", tuple(f"scripts/{name}" for name in names))


def _networks(*names: str) -> Part:
    return Part("networks", tuple(f"models/{name}.py" for name in names))


def _evidence(*names: str) -> tuple[str, ...]:
    return tuple(f"docs/evidence/{name}.md" for name in names)


@dataclass(frozen=True)
class RecordRow:
    """A record. file: in benchmarks; in a folder, that of the GPU on which it is made.

    minutes: about what the command takes. pages: documents that show the figures or send readers to them. command: the words
    after `python`; "" where the repository has no script for it. needs: what it reads beside the checkout, a key of NEEDS.
    """

    file: str
    minutes: int
    rests_on: tuple[Part, ...]
    pages: tuple[str, ...]
    command: str = ""
    needs: str = ""

    @property
    def path(self) -> Path:
        return BENCHMARKS / self.file

    @property
    def on_gpu(self) -> bool:
        return "/" in self.file

    @property
    def timed(self) -> bool:
        """Whether its figures are times, or others that change where something else uses the GPU."""
        return self.command.startswith(_BENCHMARKS)


_BENCHMARKS = (
    "-m trtsmith plugin bench",
    "scripts/bench_",
    "scripts/plugin_vs_native.py",
    "scripts/repeated_runs.py",
)

NEEDS = {
    "bundle": "python scripts/gpu_bundle.py pack --to {folder}",
    "popular": "python scripts/popular_networks.py --skeletons {folder}",
    "real-models": "python scripts/real_models.py --extract {folder} --at-most 36",
}
"""What travels to a GPU, and what writes it: of the bundle the chunks, of the others the folders below --bundle."""

_RECORD = "--output {record} --commit {commit}"
_BUNDLE = _RECORD + " --bundle {bundle}"
_ENGINES = "scripts/gpu_check.py " + _BUNDLE + " --seconds {seconds} --engines --only "
_CHECK = "scripts/gpu_check.py " + _RECORD + " --seconds {seconds} --resume"
_NETWORKS = "scripts/bench_networks.py " + _BUNDLE + " --seconds {seconds} --resume --network "
_KERNELS = "-m trtsmith plugin bench --json {record} --force --commit {commit} "

_ATTENTION = ("MultiscaleDeformableAttention", "MultiscaleDeformableAttentionFromOffsets")
_CONVOLUTION = "ModulatedDeformableConvolution"
_FIRST = (_CONVOLUTION, "MultiscaleDeformableAttention", "DeformableConvolution", "MatrixInverse")
_AGAIN = ("MultiscaleDeformableAttention", "MatrixInverse", "DeformableConvolution")
_CATALOGUE = (
    *(
        "DetectionSelection",
        "RegionAlign",
        "RotatedRegionAlign",
        "PyramidRegionAlign",
        "PyramidRotatedRegionAlign",
    ),
    *(
        "PositionSensitiveRegionAlign",
        "DeformableRegionPool",
        "BevPool",
        "PillarScatter",
        "GroupedDeformableSampling",
    ),
    *(
        "SubmanifoldRulebook",
        "RulebookConvolution",
        "VolumeSampling",
        "FeatureReassembly",
        "LocalCorrelation",
    ),
    *("TopElements", "PreciseRegionPool", "BorderAlign", "RotatedFeatureAlign", "VoxelGeneration"),
    *("SegmentReduction", "IndexedReduction"),
)
_BOUND_ANEW = (
    *(
        "GroupedDeformableSampling",
        "LocalCorrelation",
        "PositionSensitiveRegionAlign",
        "DeformableConvolution",
    ),
    *(
        "ModulatedDeformableConvolution",
        "PyramidRegionAlign",
        "TopElements",
        "UniqueSlices",
        "RulebookConvolution",
    ),
    "StridedRulebook",
)
_JUDGED = (
    *("basicvsrpp_alignment", "centernet_dcn", "geometry", "yolo_nms", "rotated_detector", "dino_decoder"),
    *("voxel_backbone", "ch_PP-OCRv4_det_infer", "ch_PP-OCRv4_rec_infer", "ch_ppocr_mobile_v2.0_cls_infer"),
)


_CASES = _script(*(f"gpucheck/{name}.py" for name in ("plugins", "plugin_trials", "accuracy", "references")))


def _timed(*operators: str) -> tuple[Part, ...]:
    return (_kernels(*operators), BENCH)


def _whole(operators: tuple[str, ...], *networks: str) -> tuple[Part, ...]:
    script = _script("bench_networks.py", "networkbench/*")
    return (RULES, BUILDER, _kernels(*operators), _networks(*networks), script)


def _engines(*modules: str) -> Part:
    return _script(
        "gpu_check.py", "gpubundle/rig_parser.py", *(f"gpucheck/{name}.py" for name in ("engines", *modules))
    )


ROWS = (
    RecordRow(
        *("onnx_coverage.json", 4, (RULES, OPERATORS, _script("onnx_coverage.py", "onnxcoverage/*", _MET))),
        (README, *_evidence("onnx-coverage", "rules")),
        "scripts/onnx_coverage.py --json {record}",
    ),
    RecordRow(
        *("real_models.json", 30, (*CONVERSION, _script("real_models.py", "realmodels/*", _MET))),
        (README, *_evidence("real-models", "rules")),
        "scripts/real_models.py --json {record}",
    ),
    RecordRow(
        *(
            "popular_networks.json",
            110,
            (*CONVERSION, _script("popular_networks.py", "popularnetworks/*", _MET)),
        ),
        (README, *_evidence("popular-networks", "rules")),
        "scripts/popular_networks.py --again --python .cache/exporters/venv/bin/python",
    ),
    RecordRow(
        *("h200/engines_onnx.json", 2, (*ENGINE, _engines("node_tests"))),
        (README, *_evidence("gpu-engines")),
        _ENGINES + "onnx-tests",
        "bundle",
    ),
    RecordRow(
        *("h200/real_models.json", 18, (*ENGINE, _script("real_models.py", "realmodels/*"))),
        (README, *_evidence("real-models")),
        "scripts/real_models.py --files {bundle}/real-models --gpu --form 'as it is' --jobs 8 --resume --json {record} "
        "--commit {commit}",
        "real-models",
    ),
    RecordRow(
        *("h200/popular_networks.json", 14, (*ENGINE, _script("popular_on_gpu.py", "popularnetworks/*"))),
        (README, *_evidence("popular-networks")),
        "scripts/popular_on_gpu.py {bundle}/popular "
        + _BUNDLE
        + " --seconds {seconds} --resume --at-once 24",
        "popular",
    ),
    RecordRow(
        *("h200/engines_judged.json", 9, (*ENGINE, SEARCH, _engines("networks", "network_list", "commands"))),
        (README, *_evidence("gpu-engines")),
        f"{_ENGINES}networks planted --networks {' '.join(_JUDGED)}",
        "bundle",
    ),
    RecordRow(
        "h200/real_networks.json",
        14,
        (RULES, JUDGE, BUILDER, _script("bench_real_networks.py", "realnetworks/*")),
        (README, *_evidence("networks")),
        "scripts/bench_real_networks.py " + _BUNDLE + " --seconds {seconds} --resume",
        "bundle",
    ),
    RecordRow(
        "h200/networks.json",
        7,
        _whole(
            (*_ATTENTION, _CONVOLUTION),
            *("deformable_detr", "centernet_dcn", "bevformer_layer", "basicvsrpp_alignment"),
        ),
        (README, *_evidence("networks")),
        _NETWORKS
        + "deformable_detr centernet_dcn bevformer_layer basicvsrpp_alignment --precision fp16 fp32 "
        "--way plugins 'plugins, softmax apart' GridSample native eager",
        "bundle",
    ),
    RecordRow(
        "h200/real_networks_types.json",
        5,
        (RULES, JUDGE, BUILDER, _script("bench_real_networks.py", "realnetworks/*")),
        _evidence("networks"),
        "scripts/bench_real_networks.py "
        + _BUNDLE
        + " --seconds {seconds} --resume --way 'import half' 'fp16 of half' bf16 --network 'vit_base, batch 8' "
        "'swin_tiny, batch 8' 'bert_base, 8 x 128' 'dinov2_base, 518' 'segformer_b0, 4 x 512' 'detr_r50, 800 x 1066' "
        "'deeplabv3_r50, 512' 'mobilenetv4_conv_m, batch 8' 'clip_vision_b32, batch 8' efficientvit_b1 "
        "'llama, 1 x 256' 'whisper_encoder, base'",
        "bundle",
    ),
    RecordRow(
        "h200/networks_more.json",
        6,
        _whole(
            (*_ATTENTION, "StateSpaceScan", "FeatureAggregation", "BallNeighbours", "FarthestPointSampling"),
            *("dino_decoder", "vision_mamba", "pointnet2", "sparse4d_head"),
        ),
        _evidence("networks"),
        _NETWORKS + "dino_decoder vision_mamba pointnet2 sparse4d_head --precision fp16 fp32 "
        "--way plugins native 'compile, CUDA graphs' eager",
        "bundle",
    ),
    RecordRow(
        *("h200/bench.json", 1, _timed(*_AGAIN)),
        (*_evidence("kernels"), "docs/maintainers/kernel-notes.md"),
        f"{_KERNELS}{' '.join(_AGAIN)} --against eager,torchvision --count 40",
    ),
    RecordRow(
        *("h200/bench_earlier.json", 6, _timed(*_FIRST)),
        _evidence("kernels"),
        f"{_KERNELS}{' '.join(_FIRST)} --against eager,compile,torchvision,convolution --count 40",
    ),
    RecordRow(
        *("h200/bench_correlation.json", 1, _timed("LocalCorrelation")),
        _evidence("kernels"),
        f"{_KERNELS}LocalCorrelation --dtype float32 --against none --warm --count 30",
    ),
    RecordRow(
        *("h200/bench_catalogue.json", 1, _timed(*_CATALOGUE)),
        _evidence("kernels"),
        f"{_KERNELS}{' '.join(_CATALOGUE)} --dtype float16,float32 --against none --warm --count 30",
    ),
    RecordRow(
        "h200/plugin_vs_native.json",
        1,
        (*_timed(*_FIRST), OPERATORS, _script("plugin_vs_native.py")),
        _evidence("kernels"),
        f"scripts/plugin_vs_native.py {_BUNDLE} --seconds {{seconds}} --resume --count 30 --op {' '.join(_FIRST)}",
        "bundle",
    ),
    RecordRow(
        *("h200/selection.json", 1, (_kernels("BoxSelection"), _script("bench_selection.py"))),
        _evidence("kernels"),
        f"scripts/bench_selection.py {_RECORD}",
    ),
    RecordRow(
        *(
            "h200/tuning.json",
            9,
            (RULES, BUILDER, Part("search", ("converter/tune/*",)), _script("bench_tuning.py")),
        ),
        _evidence("networks"),
        "scripts/bench_tuning.py "
        + _BUNDLE
        + " --seconds {seconds} --resume --minutes 1.8 --at-once 5 --network resnet50 convnext_tiny efficientnet_b0 "
        "efficientvit_b1 'vit_base, batch 8' 'swin_tiny, batch 8' 'bert_base, 8 x 128' 'gpt2, 1 x 128' 'dinov2_base, 518' "
        "'depth_anything_s, 518' 'segformer_b0, 4 x 512' 'detr_r50, 800 x 1066' 'deeplabv3_r50, 512' "
        "'clip_vision_b32, batch 8'",
        "bundle",
    ),
    RecordRow(
        *(
            "h200/tuning_models.json",
            7,
            (RULES, BUILDER, Part("search", ("converter/tune/*",)), _script("bench_tuning.py")),
        ),
        _evidence("networks"),
        "scripts/bench_tuning.py "
        + _BUNDLE
        + " --seconds {seconds} --resume --minutes 1.8 --at-once 5 --network "
        "'resnet50, three layers beyond float16' yolo_nms deformable_detr rotated_detector basicvsrpp_alignment "
        "centernet_dcn bevformer_layer vision_mamba pointnet2 dino_decoder",
        "bundle",
    ),
    RecordRow(
        *("h200/repeated_runs.json", 4, (RULES, BUILDER, _script("repeated_runs.py"))),
        _evidence("networks"),
        "scripts/repeated_runs.py " + _BUNDLE,
        "bundle",
    ),
    RecordRow(
        "h200/engines_rules.json",
        5,
        (RULES, OPERATORS, EVERY_KERNEL, EXAMPLES, _engines("rule_examples", "node_tests")),
        _evidence("gpu-engines"),
        _ENGINES + "rules",
        "bundle",
    ),
    RecordRow(
        "h200/engines_layers.json",
        8,
        (
            RULES,
            OPERATORS,
            EVERY_KERNEL,
            ADAPTERS,
            _engines("fused_layers", "product_sums", "plugin_engines"),
        ),
        _evidence("gpu-engines", "operators"),
        _ENGINES + "operators engine-sanitizer layers sums",
        "bundle",
    ),
    RecordRow(
        *("h200/engines_operators.json", 3, (RULES, OPERATORS, _engines("drawn/*"))),
        _evidence("gpu-engines"),
        _ENGINES + "graphs",
        "bundle",
    ),
    RecordRow(
        *("h200/engines_stress.json", 6, (RULES, EVERY_KERNEL, ADAPTERS, _engines("stress"))),
        _evidence("gpu-engines"),
        _ENGINES + "stress",
        "bundle",
    ),
    RecordRow(
        *("h200/check.json", 9, (OPERATORS, EVERY_KERNEL, ADAPTERS, HOST, CHECKS, _CASES)),
        (*_evidence("operators", "kernels"), "SECURITY.md"),
        _CHECK,
    ),
    RecordRow(
        *("h200/check_plugins.json", 9, (OPERATORS, EVERY_KERNEL, ADAPTERS, HOST, CHECKS, _CASES)),
        _evidence("operators", "kernels"),
        _CHECK + " --only references plugins accuracy",
    ),
    RecordRow(
        *(
            "h200/check_accumulation.json",
            3,
            (OPERATORS, _kernels("IndexedAccumulation"), ADAPTERS, HOST, CHECKS, _CASES),
        ),
        _evidence("operators"),
        _CHECK + " --only references plugins plugins-v2 accuracy sanitizer --operators IndexedAccumulation",
    ),
    RecordRow(
        *("h200/check_bindings.json", 4, (OPERATORS, _kernels(*_BOUND_ANEW), ADAPTERS, HOST, CHECKS, _CASES)),
        _evidence("operators"),
        f"{_CHECK} --only references plugins plugins-v2 --operators {' '.join(_BOUND_ANEW)}",
    ),
    # Of libraries that are compiled to PTX for sm_80.
    RecordRow(
        "h200/check_ptx80.json",
        2,
        (_kernels(*_FIRST),),
        ("docs/limits.md", "docs/maintainers/kernel-notes.md"),
    ),
    RecordRow(
        "operators.json",
        30,
        (OPERATORS, ADAPTERS, HOST, CHECKS, _script("operator_evidence.py")),
        _evidence("operators"),
        "scripts/operator_evidence.py",
    ),
    RecordRow(
        *("judge.json", 15, (JUDGE, _script("judgeproof/judge_proof.py", "judgeproof/output_plants.py"))),
        _evidence("judge"),
        "scripts/judgeproof/judge_proof.py",
    ),
    RecordRow(
        *("narrow_types.json", 5, (JUDGE, RULES, _script("judgeproof/narrow_*.py"))),
        _evidence("judge"),
        "scripts/judgeproof/narrow_types.py --engines FILE",
    ),
    RecordRow(
        *(
            "real_registries.json",
            20,
            (OPERATORS, ADAPTERS, _script("real_registries.py", "realregistries/*")),
        ),
        _evidence("plugin-registries"),
        "scripts/real_registries.py --json {record}",
    ),
    RecordRow(
        *("migrated_plugins.json", 5, (MIGRATION, _script("migrated_plugins.py"))),
        _evidence("migrated-plugins"),
        "scripts/migrated_plugins.py libnvinfer_plugin.so --release 10.14 --json {record}",
    ),
    RecordRow(
        *(
            "aarch64.json",
            20,
            (EVERY_KERNEL, ADAPTERS, OPERATORS, _script("check_aarch64.py", "crosscheck/*")),
        ),
        ("docs/platforms.md",),
        "scripts/check_aarch64.py dist --json {record}",
    ),
    RecordRow(
        *("networks_float16.json", 60, (RULES, JUDGE, _script("networkbench/decisions.py", _MET))),
        _evidence("networks", "rules"),
        "scripts/networkbench/decisions.py",
    ),
    RecordRow(
        *("rewrite.json", 20, (RULES, Part("models in memory", ("converter/model/*", "converter/graph/*")))),
        _evidence("rewriting"),
        "scripts/bench_rewrite.py",
    ),
    RecordRow(
        *(
            "convert_seconds.json",
            30,
            (*CONVERSION, BUILDER, _script("convert_seconds.py", "realnetworks/networks.py", _MET)),
        ),
        _evidence("rewriting", "rules"),
        "scripts/convert_seconds.py FOLDER",
    ),
    RecordRow(
        *("startup.json", 1, (Part("commands", ("converter/cli/*",)), _script("startup_seconds.py"))),
        _evidence("index"),
        "scripts/startup_seconds.py --json {record}",
    ),
    RecordRow(
        *(
            "bombs.json",
            20,
            (RULES, Part("check of models", ("converter/model/*",)), _script("fuzzing/bomb*.py")),
        ),
        ("SECURITY.md",),
        "scripts/fuzzing/bomb_runs.py --record {record}",
    ),
    *(
        RecordRow(file, 0, (_kernels(*operators),), ("docs/maintainers/kernel-notes.md",))
        for file, operators in {
            "h200/neighbourhood_peers.json": ("NeighbourhoodAttention",),
            "h200/points_peers.json": ("FarthestPointSampling", "BallNeighbours", "NearestNeighbours"),
            "h200/sampling_peers.json": ("FeatureAggregation", "CorrelationLookup"),
            "h200/state_space_peers.json": ("StateSpaceScan",),
            "h100/kernel_forms.json": ("StateSpaceScan", "BevPool"),
        }.items()
    ),
)
"""What is worth most first: the figures of README.md in its order, then those of the other pages."""


def row_of(path: Path) -> RecordRow | None:
    """The row of a record by its file; None for a file elsewhere, or on another GPU."""
    return next((row for row in ROWS if row.path == path.resolve()), None)
