"""``python -m dyadlearn``."""

from _dyadlearn_main import main

main()
