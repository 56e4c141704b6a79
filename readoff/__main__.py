"""`python -m readoff` is the command `readoff`."""

from readoff.cli import main

if __name__ == "__main__":
    main()
