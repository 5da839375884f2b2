"""The older name of `load_state_dict_from_url` in `flambeau.hub`."""

from flambeau.hub import load_state_dict_from_url
from flambeau.hub import load_state_dict_from_url as load_url

__all__ = ["load_state_dict_from_url", "load_url"]
