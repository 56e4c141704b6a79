"""What an adapter is worth: its answers beside those of the same model without it."""
