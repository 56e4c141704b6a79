"""Checks of bench/."""
