"""Measurements of outlast, as ratios to a floor taken in the same run: `python -m benchmarks`, `make bench`."""
