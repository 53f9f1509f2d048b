"""What there is to see of a fitted model, as plain numbers: plots, report and command line draw and print them."""
