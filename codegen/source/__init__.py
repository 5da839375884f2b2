"""Text with positions: YAML nodes, diagnostics, and facts remembered by the hash of a text."""
