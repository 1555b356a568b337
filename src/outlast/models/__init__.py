"""Models that can be asked: one module for each provider's API, imported by whoever names it."""
