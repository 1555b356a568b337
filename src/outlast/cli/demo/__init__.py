"""`outlast demo`: a real Claude Code turn, killed three times and carried on, with its receipt."""
