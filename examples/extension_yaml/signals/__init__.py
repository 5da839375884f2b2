"""Operators for signals: `soft_clip`, `error_of`, `power`, `decibels`, `smooth`."""

from signals._operators import decibels, error_of, power, smooth, soft_clip, soft_clip_

__all__ = ["decibels", "error_of", "power", "smooth", "soft_clip", "soft_clip_"]
