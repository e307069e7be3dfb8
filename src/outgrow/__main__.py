"""`python -m outgrow`: the command line."""

from outgrow.cli.main import main

main()
