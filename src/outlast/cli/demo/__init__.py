"""`outlast demo`: a turn of Claude Code or of a loop of one's own, killed three times and carried on; its receipt."""
