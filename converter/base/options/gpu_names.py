"""Maps GPU names to compute capabilities, so that targets can be product names.

Source: NVIDIA's lists of CUDA GPUs and their compute capability, https://developer.nvidia.com/cuda-gpus and, for 7.0 and
7.2, https://developer.nvidia.com/cuda-legacy-gpus. Variants that are on no list of their own (SUPER, laptops) have the
capability of the GPU whose name they carry.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.option_values import is_target

GPUS: dict[str, tuple[str, ...]] = {
    "sm121": ("GB10", "DGX Spark"),
    "sm120": (
        "RTX 5090", "RTX 5080", "RTX 5070 Ti", "RTX 5070", "RTX 5060 Ti", "RTX 5060", "RTX 5050",
        "RTX PRO 6000", "RTX PRO 5000", "RTX PRO 4500", "RTX PRO 4000", "RTX PRO 2000",
        "RTX PRO 6000 Blackwell", "RTX PRO 5000 Blackwell", "RTX PRO 4500 Blackwell", "RTX PRO 4000 Blackwell",
        "RTX PRO 2000 Blackwell",
    ),
    "sm110": ("Jetson T5000", "Jetson T4000", "Jetson Thor", "Jetson AGX Thor"),
    "sm103": ("GB300", "B300"),
    "sm100": ("GB200", "B200"),
    "sm90": ("H100", "H200", "GH200"),
    "sm89": (
        "RTX 4090", "RTX 4080", "RTX 4070 Ti", "RTX 4070", "RTX 4060 Ti", "RTX 4060", "RTX 4050", "L4", "L40", "L40S",
        "RTX 6000 Ada", "RTX 5000 Ada", "RTX 4500 Ada", "RTX 4000 Ada", "RTX 4000 SFF Ada", "RTX 2000 Ada",
    ),
    "sm87": ("Jetson Orin", "Jetson AGX Orin", "Jetson Orin NX", "Jetson Orin Nano"),
    "sm86": (
        "RTX 3090 Ti", "RTX 3090", "RTX 3080 Ti", "RTX 3080", "RTX 3070 Ti", "RTX 3070", "RTX 3060 Ti", "RTX 3060",
        "RTX 3050 Ti", "RTX 3050", "A40", "A10", "A16", "A2",
        "RTX A6000", "RTX A5500", "RTX A5000", "RTX A4500", "RTX A4000", "RTX A3000", "RTX A2000",
        "A6000", "A5500", "A5000", "A4500", "A4000", "A2000",
    ),
    "sm80": ("A100", "A30"),
    "sm75": (
        "T4", "RTX 2080 Ti", "RTX 2080", "RTX 2070", "RTX 2060", "TITAN RTX", "GTX 1660 Ti", "GTX 1660", "GTX 1650 Ti",
        "GTX 1650", "Quadro RTX 8000", "Quadro RTX 6000", "Quadro RTX 5000", "Quadro RTX 4000", "Quadro RTX 3000",
        "T1000", "T600", "T500",
    ),
    "sm72": ("Jetson Xavier", "Jetson AGX Xavier", "Jetson Xavier NX"),
    "sm70": ("V100", "TITAN V", "Quadro GV100"),
    "sm61": (
        "GTX 1080 Ti", "GTX 1080", "GTX 1070 Ti", "GTX 1070", "GTX 1060", "GTX 1050 Ti", "GTX 1050", "TITAN Xp", "P40", "P4",
        "Quadro P6000", "Quadro P5000", "Quadro P4000", "Quadro P2000", "Quadro P1000", "Quadro P600",
    ),
    "sm60": ("P100", "Quadro GP100"),
}  # fmt: skip
"""Names by target, the best known first."""

DEVICES = {"orin": "sm87", "thor": "sm110", "spark": "sm121"}
"""What `--bundle-for` takes: machines with an ARM processor, where an engine is built on the device itself."""

OLD_JETSONS = {"sm53": "TX1 and Nano", "sm62": "TX2", "sm72": "Xavier"}
"""Their last JetPack has TensorRT 8.5 at most."""

_WITHOUT = {
    **{
        target: f"Jetson {name} has no TensorRT that takes the plugins: its last JetPack has 8.5 at most"
        for target, name in OLD_JETSONS.items()
    },
    **dict.fromkeys(
        ("sm60", "sm61"),
        "GPUs of the Pascal generation have no TensorRT that takes the plugins: the last one has 8.6, and TensorRT-RTX "
        "begins with Turing (sm75)",
    ),
}
"""By target, why nothing is built for it."""

_MAKERS = ("nvidia", "geforce", "tesla", "jetson", "dgx")
_VARIANTS = (
    "tensorcoregpu",
    "laptopgpu",
    "gpu",
    "laptop",
    "maxq",
    "super",
    "generation",
    "edition",
    "server",
    "workstation",
)
_BUILT_AS = re.compile(r"(?<=[\s_-])(?:sxm\d*|pcie|nvl|\d+gb|hbm\d?e?)(?=$|[\s_-])")


def _plain(name: str) -> str:
    """Without what people leave out, or put in."""
    text = re.sub(r"[\s_./-]+", "", _BUILT_AS.sub("", name.lower()))
    while (
        shorter := next((text[len(m) :] for m in _MAKERS if text.startswith(m) and text != m), None)
    ) is not None:
        text = shorter
    for variant in _VARIANTS:
        text = text if text == variant else text.removesuffix(variant)
    return text


_BY_NAME = {_plain(name): target for target, names in GPUS.items() for name in names}


def target_of_gpu(name: str) -> str | None:
    """Returns "sm89" for "RTX 4090", "rtx-4090", "compute_89" or "8.9"; None if unknown. A target stands for itself."""
    text = _plain(re.sub(r"^\s*(\d+)\.(\d)\s*$", r"sm\1\2", name, flags=re.ASCII))
    text = re.sub(r"^compute(?=\d+$)", "sm", text, flags=re.ASCII)
    return text if re.fullmatch(r"sm\d+", text, re.ASCII) else _BY_NAME.get(text)


def as_targets(names: Iterable[str]) -> tuple[str, ...]:
    """Returns the targets of GPUs, each once, in their order. Unknown names stay as they are."""
    return tuple(dict.fromkeys(target_of_gpu(name) or name for name in names))


def parse_targets(text: str) -> tuple[str, ...]:
    """Reads "sm86,RTX 4090" as ("sm86", "sm89"). Raises UsageError for unknown GPUs and those without TensorRT 10."""
    found = as_targets(name.strip() for name in text.split(","))
    old = next((_WITHOUT[name] for name in found if name in _WITHOUT), None)
    if old is not None:
        raise UsageError(
            old,
            f"--target {text}",
            "a GPU with TensorRT 10.3 or newer, or TensorRT-RTX: Turing (sm75) or newer; Jetson Orin has it with JetPack 6",
            "build for a newer GPU, such as t4 or orin; for TensorRT 8.6: trtsmith rewrite MODEL --plugin-v2",
        )
    unknown = next((name for name in found if not is_target(name)), None)
    if unknown is None:
        return found
    near = " or ".join(f"{one} ({target_of_gpu(one)})" for one in nearest_gpus(unknown))
    raise UsageError(
        f"{text!r} is not a list of GPU targets",
        f"--target {text}",
        "targets such as sm86,sm89, or GPUs such as rtx4090,l4",
        f"did you mean {near}?"
        if near
        else "name its compute capability, such as 8.6 (`nvidia-smi --query-gpu=compute_cap --format=csv` tells it)",
    )


def device_of(name: str) -> str:
    """Returns "orin" for "Jetson AGX Orin", "orin" or "sm87". Raises UsageError for a name that is not in DEVICES."""
    found = parse_targets(name) if target_of_gpu(name) else ()
    known = {target: device for device, target in DEVICES.items()}
    if len(found) == 1 and found[0] in known:
        return known[found[0]]
    raise UsageError(
        f"{name!r} is not a device to prepare a folder for",
        f"--bundle-for {name}",
        f"one of {', '.join(DEVICES)}",
        "name one; --target builds for other GPUs, and for a server there is `trtsmith bundle ENGINE --for triton`",
    )


def nearest_gpus(name: str, count: int = 3) -> list[str]:
    """Returns GPU names that resemble the given one: several, if it abbreviates several; first those inside it."""
    text = _plain(name)
    shown = {_plain(known): known for names in GPUS.values() for known in names}
    inside = sorted((known for plain, known in shown.items() if len(text) >= 4 and text in plain), key=len)
    inside += sorted(filter(None, map(shown.get, _parts(text))), key=len, reverse=True)
    if text in _MAKERS:  # one of each generation, the newest first; those that have no TensorRT 10 left out
        new = {target: names for target, names in GPUS.items() if target not in _WITHOUT}
        own = [[one for one in names if one.lower().startswith(text)] for names in new.values()]
        inside = [min(names, key=len) for names in own if names]
    close = [] if inside else difflib.get_close_matches(text, list(shown), n=count, cutoff=0.7)
    return list(dict.fromkeys([*inside, *(shown[plain] for plain in close)]))[:count]


def _parts(text: str) -> list[str]:
    """Beginnings and ends of a text of four letters or more."""
    return [text[:end] for end in range(4, len(text))] + [text[start:] for start in range(1, len(text) - 3)]


def gpus_of(target: str, count: int = 3) -> str:
    """Lists names for a message: "H100, H200, GH200"; "" for a target that has none here."""
    return ", ".join(GPUS.get(target, ())[:count])
