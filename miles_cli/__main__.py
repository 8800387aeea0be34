"""`python -m miles_cli`: the same as `miles`."""

from miles_cli.main import main

main()
