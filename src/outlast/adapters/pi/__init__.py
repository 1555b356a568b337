"""Driving Pi, unchanged, so that its turns outlast the process they run in."""

from outlast.adapters.pi.adapter import Pi

__all__ = ["Pi"]
