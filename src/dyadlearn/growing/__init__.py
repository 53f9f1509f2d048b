"""Models that grow and forget: pure functions of statistics that change with the data."""
