"""``python -m dyadlearn.cli``."""

from dyadlearn.cli import main

main()
