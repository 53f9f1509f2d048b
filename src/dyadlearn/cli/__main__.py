"""``python -m dyadlearn.cli``."""

from _dyadlearn_main import main

main()
