"""What follows from an entry: derivatives, saved values, batching rules, lowerings, and who calls what."""
