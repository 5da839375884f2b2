"""The command ``python -m flambeau.compat``; see `flambeau.compat._run`."""

from flambeau.compat._run import main

if __name__ == "__main__":
    main()
