"""Training: soft labels, LoRA through our own backbones, and the data for it."""
