"""Implementations of the World port. Each is found through the entry points `outlast.worlds`."""
