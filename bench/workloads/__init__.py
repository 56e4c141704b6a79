"""Seeded workloads in English and Chinese, made without any data."""
