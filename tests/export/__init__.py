"""Tests of the folder export/."""
