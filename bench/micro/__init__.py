"""Micro-benchmarks: each operator, each implementation, with the bytes and FLOPs it needs.

`scripts/micro` runs them with pytest-benchmark; they are no part of the test suite.
"""
