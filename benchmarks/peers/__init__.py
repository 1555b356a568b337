"""Other libraries doing the same work on the same server, each in an environment of its own (`measures/peers.py`)."""
