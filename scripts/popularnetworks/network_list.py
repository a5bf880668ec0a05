"""Lists all networks, the most requested first."""

from __future__ import annotations

from popularnetworks.detection_networks import DETECTION_NETWORKS
from popularnetworks.diffusion_networks import DIFFUSION_NETWORKS
from popularnetworks.image_networks import IMAGE_NETWORKS
from popularnetworks.language_networks import LANGUAGE_NETWORKS
from popularnetworks.sound_networks import SOUND_NETWORKS

NETWORKS = (
    *DETECTION_NETWORKS,
    *LANGUAGE_NETWORKS,
    *IMAGE_NETWORKS,
    *DIFFUSION_NETWORKS,
    *SOUND_NETWORKS,
)
