"""Checks of readoff/, the public face and the command line."""
