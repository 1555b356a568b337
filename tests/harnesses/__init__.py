"""One module for each harness that is held to the adapter contract; `subjects` lists them. A worker imports but one."""
