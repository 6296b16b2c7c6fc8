"""Groups of attacks. Each module has a `run` that raises `Failure`, or returns what it did in a few words."""
