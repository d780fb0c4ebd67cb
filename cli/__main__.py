"""`python -m cli`: the same as the installed `firstflight`."""

from cli.main import main

main()
