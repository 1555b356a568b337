"""Drivers for the agent programs that people already use, and for a loop of one's own."""
