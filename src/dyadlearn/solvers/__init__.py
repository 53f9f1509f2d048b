"""Pure functions that solve the models."""
