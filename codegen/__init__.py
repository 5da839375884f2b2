"""The generator: native_functions.yaml and derivatives.yaml -> torchgen_out/."""
