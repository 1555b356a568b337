"""The parent of a bubblewrap box on the worker's machine. Standard library only; see `keeping`."""
