"""The suite mirrors the tree: tests/engine checks engine/, tests/kernels checks kernels/."""
