"""Build shim: the metadata and the explicit package list live in pyproject.toml."""

from setuptools import setup

setup()
