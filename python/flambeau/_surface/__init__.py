"""What programs written for PyTorch expect: other places of names, modules that are not built.

`places` gives the names of files in which PyTorch defines something that lies elsewhere in flambeau, and the
private names that programs in the wild import. `absent` makes the modules of subsystems that are not built.
Nothing of this is imported before a program asks for such a module (`_loading.tables`).
"""
