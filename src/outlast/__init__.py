"""Coding agents that outlast the process they run in."""
