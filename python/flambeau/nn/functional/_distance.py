"""Distances, and rearrangements of channels and pixels."""

from __future__ import annotations

import flambeau

__all__ = [
    "channel_shuffle",
    "cosine_similarity",
    "native_channel_shuffle",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
]

channel_shuffle = flambeau.channel_shuffle
cosine_similarity = flambeau.cosine_similarity
native_channel_shuffle = flambeau.native_channel_shuffle
pairwise_distance = flambeau.pairwise_distance
pdist = flambeau.pdist
pixel_shuffle = flambeau.pixel_shuffle
pixel_unshuffle = flambeau.pixel_unshuffle
