"""What programs written for PyTorch expect: other places of names, modules that are not built.

`places` gives the names of files in which PyTorch defines names that flambeau has in other modules, and the
private names that existing programs import. `absent` makes the modules of subsystems that are not built.
`_loading.tables` imports a table when a program asks for one of its modules.
"""
