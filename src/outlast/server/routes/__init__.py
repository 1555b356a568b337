"""What each operation does, one module for each kind of thing that is asked about."""
