"""One command for the minutes in which a GPU is at hand: `python -m readoff.bench.gpu`."""
