"""The commands of `python -m codegen`, one module each with `run(argv) -> exit code`."""
