"""From labelled decisions to a decision card: logits, fits, out-of-fold figures, gates, reports."""
