"""How a session is told to those who watch it: one source, three projections."""
