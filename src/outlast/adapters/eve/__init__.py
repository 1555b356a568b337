"""Driving agents that are made with eve, so that their turns outlast the process they run in."""

from outlast.adapters.eve.adapter import Eve

__all__ = ["Eve"]
