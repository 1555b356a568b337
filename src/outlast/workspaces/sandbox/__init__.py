"""Boxes: machines that commands of a session run in, made by providers; see `outlast.sandbox`."""
