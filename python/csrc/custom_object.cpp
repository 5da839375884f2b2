#include "python/csrc/custom_object.h"

#include "aten/dispatch/custom_class.h"
#include "python/csrc/boxed_schema.h"

namespace flambeau::python {
namespace {

struct ObjectOfClass {
  PyObject_HEAD CustomObject value;
};
PyTypeObject* base_type;
PyTypeObject* python_type;  // set from Python: a subclass of the base

CustomObject& value_of(PyObject* o) { return reinterpret_cast<ObjectOfClass*>(o)->value; }

void custom_object_free(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  {
    // A destructor of the program's may take a while, and may call Python.
    const CustomObject last = std::move(value_of(self));
    value_of(self).~CustomObject();
  }
  type->tp_free(self);
  Py_DECREF(type);
}

const CustomClass& class_named(const char* name) {
  const CustomClass* const found = find_custom_class(std::string_view(name));
  check(found != nullptr, "classes: expected a registered class, got '", name, "'");
  return *found;
}

// Borrowed; null if the argument is not given.
PyObject* argument_at(const Param& param, size_t i, PyObject* given, PyObject* named) {
  const auto at = static_cast<Py_ssize_t>(i);
  return at < PyTuple_GET_SIZE(given) ? PyTuple_GET_ITEM(given, at)
                                      : PyDict_GetItemString(named, param.name);
}

// _call_custom_method(class, method, args, kwargs): NotImplemented if the schema does not take
// them.
PyObject* call_method(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    const char *class_name, *name;
    PyObject *given, *named;
    if (!PyArg_ParseTuple(args, "ssO!O!", &class_name, &name, &PyTuple_Type, &given, &PyDict_Type,
                          &named))
      return nullptr;
    const CustomMethod* const method = class_named(class_name).find(name);
    check(method != nullptr, class_name, ": expected a method of the class, got '", name, "'");
    // Operators take numbers in the place of tensors, methods do not.
    const BoxedSchema& schema = boxed_schema(method->entry);
    for (size_t i = 0; i < schema.params.size(); ++i) {
      PyObject* const value = argument_at(schema.params[i], i, given, named);
      if (schema.params[i].kind == ParamKind::Tensor && value && is_number(value))
        return Py_NewRef(Py_NotImplemented);
    }
    Stack stack;
    if (!stack_from(method->entry, given, named, &stack)) return Py_NewRef(Py_NotImplemented);
    method->run(stack);
    return python_result(stack, method->entry).release();
  });
}

// _custom_class(name): (doc, methods, properties) or None; a method is (name, schema, is_static).
PyObject* describe(PyObject*, PyObject* name) {
  return guarded([&]() -> PyObject* {
    const char* const text = PyUnicode_AsUTF8(name);
    if (!text) return nullptr;
    const CustomClass* const found = find_custom_class(std::string_view(text));
    if (!found) return Py_NewRef(Py_None);
    const Ref methods = Ref::checked(PyList_New(0)), properties = Ref::checked(PyList_New(0));
    for (const CustomMethod& m : found->methods) {
      const Ref item = Ref::checked(Py_BuildValue("(ssO)", m.name.c_str(), m.schema.c_str(),
                                                  m.is_static ? Py_True : Py_False));
      checked(PyList_Append(methods.get(), item.get()));
    }
    for (const CustomProperty& p : found->properties) {
      const Ref item =
          Ref::checked(Py_BuildValue("(sss)", p.name.c_str(), p.getter.c_str(), p.setter.c_str()));
      checked(PyList_Append(properties.get(), item.get()));
    }
    return Py_BuildValue("(sOO)", found->doc.c_str(), methods.get(), properties.get());
  });
}

// _custom_class_name(object): "__torch__.torch.classes.ns.Name".
PyObject* class_name(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    check_type(is_custom_object(o), "classes: expected an object of a class of C++, got ",
               Py_TYPE(o)->tp_name);
    return PyUnicode_FromString(custom_class_of(*value_of(o)).name.c_str());
  });
}

// _custom_object_id(object): equal for the objects of Python that stand for one object of C++.
PyObject* object_id(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    check_type(is_custom_object(o), "classes: expected an object of a class of C++, got ",
               Py_TYPE(o)->tp_name);
    return PyLong_FromVoidPtr(value_of(o).get());
  });
}

PyObject* set_type(PyObject*, PyObject* type) {
  python_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(type));
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {{"_call_custom_method", call_method, METH_VARARGS, nullptr},
                           {"_custom_class", describe, METH_O, nullptr},
                           {"_custom_class_name", class_name, METH_O, nullptr},
                           {"_custom_object_id", object_id, METH_O, nullptr},
                           {"_set_custom_object_type", set_type, METH_O, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyObject* wrap_custom_object(const CustomObject& object) {
  if (!object) Py_RETURN_NONE;
  if (!python_type) {
    const Ref module = Ref(PyImport_ImportModule("flambeau.classes"));
    if (!module) return nullptr;
  }
  PyObject* const made = python_type->tp_alloc(python_type, 0);
  if (made) new (&value_of(made)) CustomObject(object);
  return made;
}

bool is_custom_object(PyObject* o) { return PyObject_TypeCheck(o, base_type); }
CustomObject custom_object_of(PyObject* o) { return value_of(o); }

void add_custom_objects(PyObject* module) {
  PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(custom_object_free)},
                         {0, nullptr}};
  PyType_Spec spec = {"flambeau._C._CustomObject", sizeof(ObjectOfClass), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                      slots};
  const Ref type = Ref::checked(PyType_FromSpec(&spec));
  checked(PyModule_AddObjectRef(module, "_CustomObject", type.get()));
  base_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(type.get()));
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace flambeau::python
