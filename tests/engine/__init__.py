"""Tests of the folder engine/."""
