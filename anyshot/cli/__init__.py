"""The command line: one file for each command, which parses, calls and prints.

May import every other package. This file stays empty, so that ``cli.interrupt`` loads nothing
heavy.
"""
