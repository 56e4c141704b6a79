"""The two numbers that the writer of a message and its readers share."""

from __future__ import annotations

BLOCK = 128
"""Entries that one program writes; fields begin at multiples of it."""

HEADER = 3
"""Words a field at the beginning of the message: where its values begin, how many, the filler."""
