"""Benchmarks: workloads, the opponents they are measured against, reports."""
