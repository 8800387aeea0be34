"""The command line of miles: the only code that knows argv, the terminal and exit codes."""
