"""Lists all networks, those that are most asked for first."""

from __future__ import annotations

from popularnetworks.image_networks import IMAGE_NETWORKS
from popularnetworks.language_networks import LANGUAGE_NETWORKS

NETWORKS = (*IMAGE_NETWORKS, *LANGUAGE_NETWORKS)
