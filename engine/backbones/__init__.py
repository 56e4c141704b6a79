"""Qwen backbones over packed tokens, one architecture a file."""
