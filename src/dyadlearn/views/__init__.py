"""Numbers of a fitted model for plots, the report and the command line."""
