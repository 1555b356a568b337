"""Sandboxes: a machine of a provider for each session, its files on a drive, one guarded way out."""
