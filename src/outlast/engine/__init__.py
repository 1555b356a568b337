"""What advances a session: knows ports, never an implementation."""
