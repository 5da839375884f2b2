"""State of the process: defaults, determinism, generators, streams, switches of overrides."""
