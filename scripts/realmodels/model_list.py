"""Lists all networks of scripts/real_models.py."""

from __future__ import annotations

from realmodels.image_models import IMAGE_MODELS
from realmodels.ocr_models import OCR_MODELS
from realmodels.real_model import RealModel
from realmodels.science_models import SCIENCE_MODELS
from realmodels.speech_models import SPEECH_MODELS
from realmodels.text_models import TEXT_MODELS
from realmodels.voice_activity_models import VOICE_ACTIVITY_MODELS

MODELS: tuple[RealModel, ...] = (
    *OCR_MODELS,
    *IMAGE_MODELS,
    *VOICE_ACTIVITY_MODELS,
    *SPEECH_MODELS,
    *TEXT_MODELS,
    *SCIENCE_MODELS,
)

PUBLISHED = OCR_MODELS[:3]
"""Those that checks on a GPU run beside ours: images with text are drawn for them, and PyTorch runs their operators."""
