"""Labels with holes or weights, for any model that says what it does to grids."""
