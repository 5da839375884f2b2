"""Capture: runs a function's bytecode on real values, and records its operations on tensors as graphs.

| module | contents |
|---|---|
| `decode` | instructions and exception tables of code objects |
| `frames` | the state of a function that is being interpreted |
| `origins` | where a value comes from: a local variable of the call, an attribute, an element |
| `guards` | the conditions under which a recorded segment may run again |
| `tracker` | origins, writes and guards of one segment |
| `recording` | the graph of one segment |
| `attributes`, `calls`, `operators`, `instructions` | Python's semantics, with a record of reads and writes |
| `machine` | the loop over instructions, exceptions, breaks |
| `rebuild`, `segments` | code that runs a recorded segment, and the cache of segments |
"""
