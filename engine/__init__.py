"""The engine: questions in, one forward pass, typed and calibrated answers out."""
