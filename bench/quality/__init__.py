"""Labelled decisions: JSON lines in and out, and converters from public data sets."""
