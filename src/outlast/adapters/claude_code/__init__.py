"""Driving Claude Code, unchanged, so that its turns outlast the process they run in."""
