"""`python -m cli`: equivalent to the installed `firstflight`."""

from cli.main import main

main()
