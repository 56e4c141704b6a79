"""Exported models: merged checkpoints and ONNX graphs."""
