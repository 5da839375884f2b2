"""Parts of `flambeau.fx` whose interface may still change."""
