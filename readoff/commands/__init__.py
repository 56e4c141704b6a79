"""The commands of `readoff`, one module each, and what they share."""
