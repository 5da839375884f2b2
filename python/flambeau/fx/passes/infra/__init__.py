"""Base classes of passes, and managers that run several passes."""
