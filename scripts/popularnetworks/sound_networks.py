"""Lists networks that recognise, generate and separate sound, and networks for time series."""

from __future__ import annotations

from popularnetworks.architecture import family

_WAVE = {"input_values": "batch=2 4000"}
_SMALL = "num_hidden_layers=2, hidden_size=64, num_attention_heads=4, intermediate_size=128"
_WAV2VEC = (
    f"{_SMALL}, conv_dim=(16, 16, 16, 16, 16, 16, 16), num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, "
    "vocab_size=32"
)
_WHISPER = (
    "encoder_layers=2, decoder_layers=2, d_model=64, encoder_attention_heads=4, decoder_attention_heads=4, "
    "encoder_ffn_dim=128, decoder_ffn_dim=128, vocab_size=100, max_source_positions=50, max_target_positions=32, "
    "pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1"
)
_CODEC = "num_filters=8, upsampling_ratios=[4, 4], hidden_size=32, codebook_size=64, codebook_dim=32"
_SERIES = (
    "prediction_length=8, context_length=32, num_time_features=1, lags_sequence=[1, 2], d_model=32, "
    "encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2, "
    "encoder_ffn_dim=32, decoder_ffn_dim=32"
)


def _series(kind: str, *more: str) -> str:
    """The program for a time series model of transformers, from the name of its classes."""
    return f"transformers.{kind}Model(transformers.{kind}Config({', '.join([_SERIES, *more])}))"


_PAST = {
    "past_values": "batch=2 34",
    "past_time_features": "batch=2 34 1",
    "past_observed_mask": "batch=2 34 bool",
    "future_values": "batch=2 8",
    "future_time_features": "batch=2 8 1",
}
_FORECAST = (
    "model(past_values, past_time_features, past_observed_mask, future_values=future_values, "
    "future_time_features=future_time_features, use_cache=False)[0]"
)

SOUND_NETWORKS = (
    *family(
        "transformers",
        {
            "Whisper": (
                "speech to text",
                f"transformers.WhisperForConditionalGeneration(transformers.WhisperConfig({_WHISPER}))",
                {"input_features": "batch=2 80 100", "decoder_input_ids": "batch=2 8 <100"},
                "model(input_features, decoder_input_ids=decoder_input_ids, use_cache=False)[0]",
            ),
            "wav2vec 2.0": (
                "speech to text",
                f"transformers.Wav2Vec2ForCTC(transformers.Wav2Vec2Config({_WAV2VEC}))",
                _WAVE,
                "model(input_values)[0]",
            ),
            "HuBERT": (
                "speech encoder",
                f"transformers.HubertModel(transformers.HubertConfig({_WAV2VEC}))",
                _WAVE,
                "model(input_values)[0]",
            ),
            "WavLM": (
                "speech encoder",
                f"transformers.WavLMModel(transformers.WavLMConfig({_WAV2VEC}))",
                _WAVE,
                "model(input_values)[0]",
            ),
            "Audio Spectrogram Transformer": (
                "sound classification",
                f"transformers.ASTForAudioClassification(transformers.ASTConfig({_SMALL}, max_length=64, num_mel_bins=32))",
                {"input_values": "batch=2 64 32"},
                "model(input_values)[0]",
            ),
            "EnCodec encoder": (
                "audio codec",
                f"transformers.EncodecModel(transformers.EncodecConfig({_CODEC}))",
                {"input_values": "batch=2 1 1600"},
                "model.encoder(input_values)",
            ),
            "EnCodec decoder": (
                "audio codec",
                f"transformers.EncodecModel(transformers.EncodecConfig({_CODEC}))",
                {"codes": "batch=2 32 25"},
                "model.decoder(codes)",
            ),
            "DAC": (
                "audio codec",
                "transformers.DacModel(transformers.DacConfig(encoder_hidden_size=16, downsampling_ratios=[2, 4], "
                "decoder_hidden_size=64, upsampling_ratios=[4, 2], n_codebooks=2, codebook_size=64))",
                {"input_values": "batch=2 1 800"},
                "model(input_values)[1]",
            ),
            "Mimi": (
                "audio codec",
                "transformers.MimiModel(transformers.MimiConfig(num_filters=8, hidden_size=32, num_hidden_layers=2, "
                "num_attention_heads=4, num_key_value_heads=4, intermediate_size=64, codebook_size=64, codebook_dim=16, "
                "vector_quantization_hidden_dimension=16, num_quantizers=4, num_semantic_quantizers=1, head_dim=8, "
                "upsampling_ratios=[4, 4], upsample_groups=32))",
                {"input_values": "1 1 3200"},
                "model(input_values).audio_values",
            ),
            "VITS": (
                "text to speech",
                "transformers.VitsModel(transformers.VitsConfig(vocab_size=40, hidden_size=32, num_hidden_layers=2, "
                "num_attention_heads=2, ffn_dim=64, flow_size=32, spectrogram_bins=65, prior_encoder_num_flows=2, "
                "posterior_encoder_num_wavenet_layers=2, prior_encoder_num_wavenet_layers=2, noise_scale=0.0, "
                "duration_predictor_num_flows=2, upsample_initial_channel=32, use_stochastic_duration_prediction=False))",
                {"input_ids": "1 16 <40"},
                "model(input_ids)[0]",
            ),
            "SpeechT5": (
                "text to speech",
                "transformers.SpeechT5Model(transformers.SpeechT5Config(hidden_size=64, encoder_layers=2, decoder_layers=2, "
                "encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128), "
                "transformers.models.speecht5.modeling_speecht5.SpeechT5EncoderWithTextPrenet(transformers.SpeechT5Config("
                "hidden_size=64, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=128)), None)",
                {"input_ids": "batch=2 16 <80"},
                "model.encoder(input_ids)[0]",
            ),
            "FastSpeech 2 Conformer": (
                "text to speech",
                "transformers.FastSpeech2ConformerModel(transformers.FastSpeech2ConformerConfig(hidden_size=32, "
                "encoder_layers=1, decoder_layers=1, encoder_num_attention_heads=2, decoder_num_attention_heads=2))",
                {"input_ids": "1 8 <70"},
                "model(input_ids)[0]",
            ),
            "HiFi-GAN": (
                "vocoder",
                "transformers.SpeechT5HifiGan(transformers.SpeechT5HifiGanConfig(upsample_initial_channel=32))",
                {"spectrogram": "batch=2 sequence=20 80"},
            ),
            "Moonshine": (
                "speech to text",
                "transformers.MoonshineModel(transformers.MoonshineConfig(vocab_size=100, hidden_size=64, "
                "intermediate_size=128, encoder_num_hidden_layers=2, decoder_num_hidden_layers=2, "
                "encoder_num_attention_heads=4, decoder_num_attention_heads=4))",
                {"input_values": "batch=2 4000", "decoder_input_ids": "batch=2 8 <100"},
                "model(input_values, decoder_input_ids=decoder_input_ids, use_cache=False)[0]",
            ),
            "PatchTST": (
                "time series",
                "transformers.PatchTSTForPrediction(transformers.PatchTSTConfig(num_input_channels=3, context_length=64, "
                "patch_length=8, patch_stride=8, d_model=32, num_attention_heads=4, num_hidden_layers=2, ffn_dim=64, "
                "prediction_length=16))",
                {"past_values": "batch=2 64 3"},
                "model(past_values)[0]",
            ),
            "PatchTSMixer": (
                "time series",
                "transformers.PatchTSMixerForPrediction(transformers.PatchTSMixerConfig(num_input_channels=3, "
                "context_length=64, patch_length=8, patch_stride=8, d_model=16, num_layers=2, prediction_length=16))",
                {"past_values": "batch=2 64 3"},
                "model(past_values)[0]",
            ),
            "Informer": ("time series", _series("Informer"), _PAST, _FORECAST),
            "Autoformer": (
                "time series",
                _series("Autoformer", "moving_average=5", "label_length=4"),
                _PAST,
                _FORECAST,
            ),
        },
    ),
    *family(
        "conformer",
        {
            "Conformer": (
                "speech encoder",
                "conformer.Conformer(dim=64, depth=2, dim_head=16, heads=4)",
                {"x": "batch=2 sequence=32 64"},
            ),
        },
    ),
    *family(
        "demucs",
        {
            "Hybrid Transformer Demucs": (
                "separation of music",
                "demucs.htdemucs.HTDemucs(['drums', 'voice'], channels=8, nfft=512, depth=2, t_layers=1, "
                "bottom_channels=16, segment=1, samplerate=8000)",
                {"mix": "1 2 8000"},
            ),
            "Demucs": (
                "separation of music",
                "demucs.demucs.Demucs(['drums', 'voice'], channels=8, depth=3, resample=False)",
                {"mix": "1 2 4000"},
            ),
        },
    ),
)
