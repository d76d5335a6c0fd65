"""The command line: flags in, a surface out, honest exit codes."""
