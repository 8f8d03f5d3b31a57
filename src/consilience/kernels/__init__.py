"""Compiled loops: arrays in, arrays out.  Nothing here knows names, files or policy."""
