"""The command line: one module a command and the options they share."""
