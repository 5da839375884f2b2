"""Matching and fusing of subgraphs."""
