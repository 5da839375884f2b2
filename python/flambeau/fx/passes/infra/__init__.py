"""How passes are put together."""
