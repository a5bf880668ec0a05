"""Lists networks that read and write text, and images of text."""

from __future__ import annotations

from popularnetworks.architecture import family, fixed_image, tokens

_SMALL = "num_hidden_layers=2, hidden_size=64, num_attention_heads=4, intermediate_size=128, vocab_size=100"
_GPT = "n_layer=2, n_embd=64, n_head=4, vocab_size=100"
_T5 = "num_layers=2, d_model=64, d_kv=16, d_ff=128, num_heads=4, vocab_size=100"
_BART = (
    "encoder_layers=2, decoder_layers=2, d_model=64, encoder_attention_heads=4, decoder_attention_heads=4, "
    "encoder_ffn_dim=128, decoder_ffn_dim=128, vocab_size=100, max_position_embeddings=64"
)
_SSM = "num_hidden_layers=2, hidden_size=64, vocab_size=100, state_size=16"
_ENCODER = "model(input_ids, attention_mask)[0]"
_DECODER = "model(input_ids, attention_mask=attention_mask, use_cache=False)[0]"
_BOTH = "model(input_ids, decoder_input_ids=decoder_input_ids, use_cache=False)[0]"
_PAIR = {"input_ids": "batch=2 sequence=16 <100", "decoder_input_ids": "batch=2 8 <100"}
_VIT = "hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=64, patch_size=16"


def _encoders(kinds: str) -> dict[str, tuple[str, str, dict[str, str], str]]:
    """Encoders of transformers. kinds: NAME=CLASS without its ending, and configuration besides the sizes."""
    found = {}
    for line in kinds.strip().splitlines():
        name, _, rest = line.strip().partition(" = ")
        kind, _, more = rest.partition("; ")
        config = f"transformers.{kind}Config({', '.join([_SMALL, *([more] if more else [])])})"
        found[name] = (
            "text encoder",
            f"transformers.{kind}Model({config})",
            tokens(100, "attention_mask"),
            _ENCODER,
        )
    return found


def _decoders(kinds: str) -> dict[str, tuple[str, str, dict[str, str], str]]:
    """Language models of transformers: CLASS/CONFIGURATION if the names differ; own sizes after a `=`."""
    found = {}
    for line in kinds.strip().splitlines():
        name, _, rest = line.strip().partition(" = ")
        kind, _, more = rest.partition("; ")
        sizes = more[1:] if more.startswith("=") else ", ".join([_SMALL, *([more] if more else [])])
        model, _, config = kind.partition("/")
        ending = "LMHeadModel" if model == "GPT2" else "ForCausalLM"
        make = f"transformers.{model}{ending}(transformers.{config or model}Config({sizes}))"
        found[name] = ("language model", make, tokens(100, "attention_mask"), _DECODER)
    return found


LANGUAGE_NETWORKS = (
    *family(
        "transformers",
        _encoders("""
            BERT = Bert
            RoBERTa = Roberta; max_position_embeddings=64
            XLM-RoBERTa = XLMRoberta; max_position_embeddings=64
            ALBERT = Albert; embedding_size=32
            ELECTRA = Electra; embedding_size=32
            DeBERTa = DebertaV2; relative_attention=True, pos_att_type=['p2c', 'c2p'], position_buckets=8
            MPNet = MPNet; max_position_embeddings=64
            ModernBERT = ModernBert; pad_token_id=0, local_attention=8
        """)
        | {
            "DistilBERT": (
                "text encoder",
                "transformers.DistilBertModel(transformers.DistilBertConfig(n_layers=2, dim=64, n_heads=4, "
                "hidden_dim=128, vocab_size=100))",
                tokens(100, "attention_mask"),
                _ENCODER,
            ),
        }
        | _decoders(f"""
            Llama = Llama; num_key_value_heads=2
            GPT-2 = GPT2; ={_GPT}
            Mistral = Mistral; num_key_value_heads=2, sliding_window=8
            Qwen2 = Qwen2; num_key_value_heads=2
            Qwen3 = Qwen3; num_key_value_heads=2, head_dim=16
            Gemma = Gemma; num_key_value_heads=2, head_dim=16, pad_token_id=0
            Gemma 3 = Gemma3/Gemma3Text; num_key_value_heads=2, head_dim=16, sliding_window=8, pad_token_id=0
            Phi = Phi
            Phi-3 = Phi3; num_key_value_heads=2, pad_token_id=0
            OPT = OPT; ffn_dim=128, word_embed_proj_dim=64, max_position_embeddings=64
            GPT-NeoX = GPTNeoX; max_position_embeddings=64
            Falcon = Falcon
            BLOOM = Bloom; ={_GPT.replace("n_embd", "hidden_size")}
            Mixtral = Mixtral; num_key_value_heads=2, num_local_experts=4
            OLMo 2 = Olmo2; num_key_value_heads=2, pad_token_id=0
            Mamba = Mamba; ={_SSM}
            Mamba-2 = Mamba2; ={_SSM}, num_heads=8, head_dim=16, n_groups=1, chunk_size=8
        """)
        | {
            "T5": (
                "text to text",
                f"transformers.T5ForConditionalGeneration(transformers.T5Config({_T5}))",
                _PAIR,
                _BOTH,
            ),
            "mT5 encoder": (
                "text encoder",
                f"transformers.MT5EncoderModel(transformers.MT5Config({_T5}))",
                tokens(100, "attention_mask"),
                _ENCODER,
            ),
            "BART": (
                "text to text",
                f"transformers.BartForConditionalGeneration(transformers.BartConfig({_BART}))",
                _PAIR,
                _BOTH,
            ),
            "MarianMT": (
                "translation",
                f"transformers.MarianMTModel(transformers.MarianConfig({_BART}, pad_token_id=0, decoder_start_token_id=0))",
                _PAIR,
                _BOTH,
            ),
            "NLLB (M2M-100)": (
                "translation",
                f"transformers.M2M100ForConditionalGeneration(transformers.M2M100Config({_BART}))",
                _PAIR,
                _BOTH,
            ),
            "TrOCR": (
                "text in images",
                "transformers.VisionEncoderDecoderModel(transformers.VisionEncoderDecoderConfig("
                f"encoder=transformers.ViTConfig({_VIT}).to_dict(), decoder=transformers.TrOCRConfig(vocab_size=100, "
                "d_model=64, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=128, "
                "cross_attention_hidden_size=64, max_position_embeddings=64).to_dict()))",
                {"pixel_values": "batch=2 3 64 64", "decoder_input_ids": "batch=2 8 <100"},
                "model(pixel_values, decoder_input_ids=decoder_input_ids, use_cache=False)[0]",
            ),
            "Donut encoder": (
                "documents",
                "transformers.DonutSwinModel(transformers.DonutSwinConfig(image_size=64, patch_size=4, embed_dim=32, "
                "depths=[2, 2], num_heads=[2, 4], window_size=4))",
                fixed_image(name="pixel_values"),
                "model(pixel_values)[0]",
            ),
            "LayoutLMv3": (
                "documents",
                f"transformers.LayoutLMv3Model(transformers.LayoutLMv3Config({_SMALL}, input_size=64, patch_size=16, "
                "coordinate_size=12, shape_size=8, max_2d_position_embeddings=128, max_position_embeddings=64))",
                {
                    "input_ids": "batch=2 16 <100",
                    "bbox": "batch=2 16 4 =9",
                    "pixel_values": "batch=2 3 64 64",
                    "attention_mask": "batch=2 16 =1",
                },
                "model(input_ids, bbox, attention_mask, pixel_values=pixel_values)[0]",
            ),
            "BLIP": (
                "images to captions",
                "transformers.BlipForConditionalGeneration(transformers.BlipConfig("
                f"text_config=dict({_SMALL}, encoder_hidden_size=64, projection_dim=64, max_position_embeddings=64), "
                f"vision_config=dict({_VIT}), projection_dim=64))",
                {"pixel_values": "batch=2 3 64 64", "input_ids": "batch=2 8 <99"},
                "model(pixel_values, input_ids)[0]",
            ),
        },
    ),
    *family(
        "x-transformers",
        {
            "x-transformers decoder": (
                "language model",
                "x_transformers.TransformerWrapper(num_tokens=100, max_seq_len=64, attn_layers="
                "x_transformers.Decoder(dim=64, depth=2, heads=4, rotary_pos_emb=True))",
                tokens(),
            ),
            "x-transformers encoder": (
                "text encoder",
                "x_transformers.TransformerWrapper(num_tokens=100, max_seq_len=64, attn_layers="
                "x_transformers.Encoder(dim=64, depth=2, heads=4, alibi_pos_bias=True, ff_glu=True, use_rmsnorm=True))",
                tokens(),
            ),
        },
    ),
)
