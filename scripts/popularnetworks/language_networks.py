"""Networks that read and write text."""

from __future__ import annotations

from popularnetworks.architecture import family, tokens

_SMALL = "num_hidden_layers=2, hidden_size=64, num_attention_heads=4, intermediate_size=128, vocab_size=100"

LANGUAGE_NETWORKS = (
    *family(
        "transformers",
        {
            "BERT": (
                "text encoder",
                f"transformers.BertModel(transformers.BertConfig({_SMALL}))",
                tokens(100, "attention_mask"),
                "model(input_ids, attention_mask)[0]",
            ),
            "Llama": (
                "language model",
                f"transformers.LlamaForCausalLM(transformers.LlamaConfig({_SMALL}, num_key_value_heads=2))",
                tokens(100, "attention_mask"),
                "model(input_ids, attention_mask=attention_mask, use_cache=False)[0]",
            ),
        },
    ),
)
