"""What can be asked, one module for each kind of thing: each has a table `OPERATIONS`."""
