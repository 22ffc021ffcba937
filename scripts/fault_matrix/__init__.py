"""The matrix of faults: what scripts/faults is made of."""
