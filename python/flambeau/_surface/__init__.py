"""What programs written for PyTorch expect: other places of names, modules that are not built.

`places` gives the names of files in which PyTorch defines something that lies elsewhere in flambeau, and the
private names that programs in the wild import. `absent` makes the modules of subsystems that are not built.
`_loading.tables` imports a table when a program asks for one of its modules.
"""
