"""MUTANTS: plants small faults in the core and the shell, and lists those that no test catches."""
