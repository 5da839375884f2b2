#include "python/csrc/value_types.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "python/csrc/arg_parser.h"
#include "python/csrc/type_docs.h"

namespace flambeau::python {

PyTypeObject* dtype_type;
PyTypeObject* device_type;
PyTypeObject* layout_type;
PyTypeObject* memory_format_type;
PyTypeObject* size_type;

namespace {

PyObject* dtypes[kNumScalarTypes];
constexpr const char* kAbbreviations[kNumScalarTypes] = {
    "b8",     "u8",       "i8",         "i16",        "i32",       "i64",       "f16", "bf16",
    "f32",    "f64",      "c64",        "c128",       "u64",       "u16",       "u32", "c32",
    "f8e5m2", "f8e4m3fn", "f8e5m2fnuz", "f8e4m3fnuz", "f8e8m0fnu", "f4e2m1fnx2"};

// Dtypes that programs name and compare, but that no tensor can have: their value is
// Undefined.
enum class Sign { Signed, Unsigned, Unknown };
struct NamedDtype {
  const char* name;
  const char* abbreviation;
  int64_t itemsize;
  Sign sign;
};
constexpr NamedDtype kNamedDtypes[] = {
    {"int1", "int1", 1, Sign::Signed},          {"int2", "int2", 1, Sign::Signed},
    {"int3", "int3", 1, Sign::Signed},          {"int4", "int4", 1, Sign::Signed},
    {"int5", "int5", 1, Sign::Signed},          {"int6", "int6", 1, Sign::Signed},
    {"int7", "int7", 1, Sign::Signed},          {"uint1", "uint1", 1, Sign::Unsigned},
    {"uint2", "uint2", 1, Sign::Unsigned},      {"uint3", "uint3", 1, Sign::Unsigned},
    {"uint4", "uint4", 1, Sign::Unsigned},      {"uint5", "uint5", 1, Sign::Unsigned},
    {"uint6", "uint6", 1, Sign::Unsigned},      {"uint7", "uint7", 1, Sign::Unsigned},
    {"bits1x8", "b1x8", 1, Sign::Unknown},      {"bits2x4", "b2x4", 1, Sign::Unknown},
    {"bits4x2", "b4x2", 1, Sign::Unknown},      {"bits8", "b8x1", 1, Sign::Unknown},
    {"bits16", "b16x1", 2, Sign::Unknown},      {"qint8", "qint8", 1, Sign::Unknown},
    {"quint8", "quint8", 1, Sign::Unknown},     {"qint32", "qint32", 4, Sign::Unknown},
    {"quint4x2", "quint4x2", 1, Sign::Unknown}, {"quint2x4", "quint2x4", 1, Sign::Unknown}};
PyObject* named_dtypes[std::size(kNamedDtypes)];
PyObject* layouts[6];
PyObject* memory_formats[4];

PyObject* text(const std::string& s) {
  return PyUnicode_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size()));
}
ScalarType dtype_of(PyObject* o) { return reinterpret_cast<DtypeObject*>(o)->value; }
Device device_of(PyObject* o) { return reinterpret_cast<DeviceObject*>(o)->value; }

// --- dtype ---------------------------------------------------------------------------------------

const NamedDtype* named_dtype(PyObject* self) {
  if (dtype_of(self) != ScalarType::Undefined) return nullptr;
  for (size_t i = 0; i < std::size(kNamedDtypes); ++i) {
    if (named_dtypes[i] == self) return &kNamedDtypes[i];
  }
  return nullptr;
}
const char* dtype_name(PyObject* self) {
  const NamedDtype* named = named_dtype(self);
  return named ? named->name : name_of(dtype_of(self));
}
PyObject* dtype_repr(PyObject* self) { return text(text_of("flambeau.", dtype_name(self))); }
PyObject* dtype_reduce(PyObject* self, PyObject*) { return text(dtype_name(self)); }
PyObject* dtype_is_floating(PyObject* self, void*) {
  return wrap(!named_dtype(self) && is_floating_type(dtype_of(self)));
}
PyObject* dtype_is_complex(PyObject* self, void*) {
  return wrap(!named_dtype(self) && is_complex_type(dtype_of(self)));
}
PyObject* dtype_is_signed(PyObject* self, void*) {
  return guarded([&] {
    const NamedDtype* named = named_dtype(self);
    if (!named) return wrap(is_signed_type(dtype_of(self)));
    check(named->sign != Sign::Unknown, named->name,
          ".is_signed: expected a dtype of numbers, got one whose elements have no sign");
    return wrap(named->sign == Sign::Signed);
  });
}
PyObject* dtype_itemsize(PyObject* self, void*) {
  const NamedDtype* named = named_dtype(self);
  return wrap(named ? named->itemsize : static_cast<int64_t>(element_size(dtype_of(self))));
}
PyObject* dtype_abbreviation(PyObject* self, void*) {
  const NamedDtype* named = named_dtype(self);
  return PyUnicode_FromString(named ? named->abbreviation
                                    : kAbbreviations[index_of(dtype_of(self))]);
}
PyObject* dtype_to_real(PyObject* self, PyObject*) {
  return named_dtype(self) ? Py_NewRef(self) : wrap(to_real_type(dtype_of(self)));
}
PyObject* dtype_to_complex(PyObject* self, PyObject*) {
  return guarded([&] {
    const NamedDtype* named = named_dtype(self);
    check(!named, "to_complex: expected a dtype of numbers, got ", dtype_name(self),
          " (Unknown Complex ScalarType)");
    return wrap(to_complex_type(dtype_of(self)));
  });
}

PyMethodDef dtype_methods[] = {
    {"__reduce__", dtype_reduce, METH_NOARGS, nullptr},
    {"to_real", dtype_to_real, METH_NOARGS, "The dtype of the real part."},
    {"to_complex", dtype_to_complex, METH_NOARGS,
     "The complex dtype with parts of this precision."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef dtype_getset[] = {
    {"is_floating_point", dtype_is_floating, nullptr, "Whether elements are real floating numbers.",
     nullptr},
    {"is_complex", dtype_is_complex, nullptr, "Whether elements are complex numbers.", nullptr},
    {"is_signed", dtype_is_signed, nullptr, "Whether elements can be negative.", nullptr},
    {"itemsize", dtype_itemsize, nullptr, "Bytes of one element.", nullptr},
    {"abbr", dtype_abbreviation, nullptr, "A name of a few letters: f32 for float32.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

// --- device --------------------------------------------------------------------------------------

// Gives a device the index that was passed beside its type, which must then be a name alone.
void set_device_index(Device* device, PyObject* type, PyObject* index) {
  check(device->index < 0, "device(): type (string) must not include an index because index was ",
        "passed explicitly: expected a type alone, got ", PyUnicode_AsUTF8(type));
  if (index == Py_None) return;
  check_type(PyIndex_Check(index) && !PyBool_Check(index), "device(): expected an index that is ",
             "int, got ", Py_TYPE(index)->tp_name);
  const int64_t i = integer_from(index);
  check(i >= 0 && i < 128, "Device index: expected 0 to 127, got ", i);
  device->index = static_cast<int8_t>(i);
}
// device(device) and device(type, index=None).
PyObject* device_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"type", "index", nullptr};
    static const char* other_names[] = {"device", nullptr};
    PyObject* type = nullptr;
    PyObject* index = nullptr;
    if (kwargs && PyDict_GetItemString(kwargs, "device")) {
      if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:device", const_cast<char**>(other_names),
                                       &type))
        return nullptr;
    } else if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:device", const_cast<char**>(names),
                                            &type, &index)) {
      return nullptr;
    }
    const bool by_type = index || (kwargs && PyDict_GetItemString(kwargs, "type"));
    check_type(!by_type || PyUnicode_Check(type),
               "device(): expected a type that is str, as in device(type, index), got ",
               Py_TYPE(type)->tp_name);
    Device device;
    check_type(device_from(type, &device), "device(): expected a string or a device, got ",
               Py_TYPE(type)->tp_name);
    if (by_type) set_device_index(&device, type, index ? index : Py_None);
    return wrap_device(device);
  });
}
std::string device_text(Device d) { return text_of(d); }
PyObject* device_str(PyObject* self) { return text(device_text(device_of(self))); }
PyObject* device_repr(PyObject* self) {
  const Device d = device_of(self);
  std::string out = text_of("device(type='", name_of(d.type), "'");
  if (d.index >= 0) out += text_of(", index=", static_cast<int64_t>(d.index));
  return text(out + ")");
}
PyObject* device_compare(PyObject* a, PyObject* b, int op) {
  if (!PyObject_TypeCheck(b, device_type) || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  return wrap((device_of(a) == device_of(b)) == (op == Py_EQ));
}
Py_hash_t device_hash(PyObject* self) {
  return static_cast<Py_hash_t>(device_of(self).type) * 257 + device_of(self).index + 2;
}
PyObject* device_get_type(PyObject* self, void*) {
  return PyUnicode_FromString(name_of(device_of(self).type));
}
PyObject* device_get_index(PyObject* self, void*) {
  const int8_t index = device_of(self).index;
  return index < 0 ? wrap_none() : wrap(static_cast<int64_t>(index));
}
PyObject* device_reduce(PyObject* self, PyObject*) {
  return Py_BuildValue("O(N)", device_type, device_str(self));
}
PyMethodDef device_methods[] = {{"__reduce__", device_reduce, METH_NOARGS, nullptr},
                                {nullptr, nullptr, 0, nullptr}};
PyGetSetDef device_getset[] = {
    {"type", device_get_type, nullptr, "The kind of device: cpu, cuda, meta.", nullptr},
    {"index", device_get_index, nullptr, "Which device of its kind; None: the current one.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

// --- layout, memory format ----------------------------------------------------------------------

// In the order of Layout. The compressed ones exist to be compared with, and to be refused by name.
constexpr const char* kLayouts[] = {"strided",    "sparse_coo", "sparse_csr",
                                    "sparse_csc", "sparse_bsr", "sparse_bsc"};

const char* layout_name(PyObject* self) {
  return kLayouts[static_cast<int>(reinterpret_cast<LayoutObject*>(self)->value)];
}
PyObject* layout_repr(PyObject* self) { return text(text_of("flambeau.", layout_name(self))); }
PyObject* layout_reduce(PyObject* self, PyObject*) {
  return PyUnicode_FromString(layout_name(self));
}
PyMethodDef layout_methods[] = {{"__reduce__", layout_reduce, METH_NOARGS, nullptr},
                                {nullptr, nullptr, 0, nullptr}};
PyObject* memory_format_repr(PyObject* self) {
  return text(text_of("flambeau.", reinterpret_cast<MemoryFormatObject*>(self)->value));
}
PyObject* memory_format_reduce(PyObject* self, PyObject*) {
  return text(text_of(reinterpret_cast<MemoryFormatObject*>(self)->value));
}
PyMethodDef memory_format_methods[] = {{"__reduce__", memory_format_reduce, METH_NOARGS, nullptr},
                                       {nullptr, nullptr, 0, nullptr}};

// --- making the types ---------------------------------------------------------------------------

// A type without a slot for __new__ has the objects made here alone.
PyTypeObject* make_type(PyObject* module, const char* name, const char* doc, size_t size,
                        std::vector<PyType_Slot> slots) {
  const bool has_new = std::ranges::any_of(slots, [](auto& s) { return s.slot == Py_tp_new; });
  const unsigned int flags =
      Py_TPFLAGS_DEFAULT | (has_new ? 0u : Py_TPFLAGS_DISALLOW_INSTANTIATION);
  slots.push_back({Py_tp_doc, const_cast<char*>(doc)});
  slots.push_back({0, nullptr});
  PyType_Spec spec = {name, static_cast<int>(size), 0, flags, slots.data()};
  PyObject* type = Ref::checked(PyType_FromSpec(&spec)).release();
  checked(PyModule_AddObjectRef(module, std::strrchr(name, '.') + 1, type));
  return reinterpret_cast<PyTypeObject*>(type);
}
template <typename Object, typename Value>
PyObject* make_constant(PyTypeObject* type, Value value) {
  PyObject* object = Ref::checked(type->tp_alloc(type, 0)).release();
  reinterpret_cast<Object*>(object)->value = value;
  return object;
}
template <typename F>
void* slot(F* function) {
  return reinterpret_cast<void*>(function);
}

void add_dtypes(PyObject* module) {
  static const std::pair<const char*, ScalarType> aliases[] = {
      {"float", ScalarType::Float32},    {"double", ScalarType::Float64},
      {"half", ScalarType::Float16},     {"short", ScalarType::Int16},
      {"int", ScalarType::Int32},        {"long", ScalarType::Int64},
      {"cfloat", ScalarType::Complex64}, {"cdouble", ScalarType::Complex128},
      {"chalf", ScalarType::Complex32}};
  for (int i = 0; i < kNumScalarTypes; ++i) {
    const auto type = static_cast<ScalarType>(i);
    dtypes[i] = make_constant<DtypeObject>(dtype_type, type);
    checked(PyModule_AddObjectRef(module, name_of(type), dtypes[i]));
  }
  for (const auto& [name, type] : aliases) {
    checked(PyModule_AddObjectRef(module, name, dtypes[index_of(type)]));
  }
  for (size_t i = 0; i < std::size(kNamedDtypes); ++i) {
    named_dtypes[i] = make_constant<DtypeObject>(dtype_type, ScalarType::Undefined);
    checked(PyModule_AddObjectRef(module, kNamedDtypes[i].name, named_dtypes[i]));
    if (!std::strcmp(kNamedDtypes[i].name, "uint1")) {
      checked(PyModule_AddObjectRef(module, "bit", named_dtypes[i]));
    }
  }
}

}  // namespace

PyObject* wrap(ScalarType value) { return Py_NewRef(dtypes[index_of(value)]); }
PyObject* wrap_device(Device device) { return make_constant<DeviceObject>(device_type, device); }
PyObject* wrap_layout(Layout layout) { return Py_NewRef(layouts[static_cast<int>(layout)]); }
PyObject* wrap_memory_format(MemoryFormat format) {
  return Py_NewRef(memory_formats[static_cast<int>(format)]);
}
void add_value_types(PyObject* module) {
  dtype_type = make_type(module, "flambeau._C.dtype", kDtypeDoc, sizeof(DtypeObject),
                         {{Py_tp_repr, slot(dtype_repr)},
                          {Py_tp_methods, dtype_methods},
                          {Py_tp_getset, dtype_getset}});
  device_type = make_type(module, "flambeau._C.device", kDeviceDoc, sizeof(DeviceObject),
                          {{Py_tp_new, slot(device_new)},
                           {Py_tp_repr, slot(device_repr)},
                           {Py_tp_str, slot(device_str)},
                           {Py_tp_hash, slot(device_hash)},
                           {Py_tp_richcompare, slot(device_compare)},
                           {Py_tp_methods, device_methods},
                           {Py_tp_getset, device_getset}});
  layout_type = make_type(module, "flambeau._C.layout", kLayoutDoc, sizeof(LayoutObject),
                          {{Py_tp_repr, slot(layout_repr)}, {Py_tp_methods, layout_methods}});
  memory_format_type =
      make_type(module, "flambeau._C.memory_format", kMemoryFormatDoc, sizeof(MemoryFormatObject),
                {{Py_tp_repr, slot(memory_format_repr)}, {Py_tp_methods, memory_format_methods}});
  add_dtypes(module);
  for (int i = 0; i < static_cast<int>(std::size(kLayouts)); ++i) {
    PyObject* constant = make_constant<LayoutObject>(layout_type, static_cast<Layout>(i));
    layouts[i] = constant;
    checked(PyModule_AddObjectRef(module, kLayouts[i], constant));
  }
  for (int i = 0; i < 4; ++i) {
    const auto format = static_cast<MemoryFormat>(i);
    memory_formats[i] = make_constant<MemoryFormatObject>(memory_format_type, format);
    checked(PyModule_AddObjectRef(module, name_of(format), memory_formats[i]));
  }
}

}  // namespace flambeau::python
