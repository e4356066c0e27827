"""MUTANTS: plant small faults in the core and the shell, and list those that no test catches."""
