#pragma once
// What help() shows of generated functions and methods. The texts are a data file of the package
// (codegen/targets/python_texts.py), whose pages are read when a text is.
#include <Python.h>

#include <cstdint>

namespace flambeau::python {

// Generated (torchgen_out/python/tables.cpp).
extern const char generated_texts_key[];
extern const uint16_t generated_tensor_texts[];

// Sets the text of each row of a table; `texts` has their numbers. Without a file that fits this
// build, a warning says so once and the rows keep none. Throws where the warning is an error.
void set_texts(PyMethodDef* table, const uint16_t* texts);

}  // namespace flambeau::python
