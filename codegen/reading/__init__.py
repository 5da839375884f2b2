"""From YAML to the model: entries, their checks and every diagnostic."""
