"""Apple's Metal devices: there are none."""

from flambeau._absent_device import device_count, empty_cache, is_available, manual_seed

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed"]
