"""Ten thousand simulated lives of a run, and proof that they would notice a fault. `python -m soak`."""
