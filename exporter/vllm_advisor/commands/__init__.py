"""One module a command: its flags, and a function that runs it and returns the exit code."""
