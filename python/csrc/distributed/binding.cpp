// The module flambeau.distributed._engine: the engine's functions, for Python. Addresses are
// integers; the caller keeps the memory alive.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "python/csrc/distributed/engine.h"
#include "python/csrc/distributed/mpi_abi.h"

namespace py = pybind11;
using namespace pybind11::literals;

namespace flambeau::distributed {
namespace {

using Address = uintptr_t;
using Counts = std::vector<mpi::Count>;
using Places = std::vector<mpi::Aint>;

void* pointer(Address address) { return reinterpret_cast<void*>(address); }

using Bound = py::class_<Communicator, Group>;

void bind_reductions(Bound& bound) {
  bound.def_readonly("members", &Communicator::members)
      .def_readonly("rank", &Communicator::rank)
      .def("all_reduce",
           [](const Group& group, Address send, Address receive, mpi::Count count, int element,
              int reduction, bool background) {
             return all_reduce(group, pointer(send), pointer(receive), count, element, reduction,
                               background);
           })
      .def("reduce",
           [](const Group& group, Address send, Address receive, mpi::Count count, int element,
              int reduction, int root, bool background) {
             return reduce(group, pointer(send), pointer(receive), count, element, reduction, root,
                           background);
           })
      .def("reduce_scatter", [](const Group& group, Address send, Address receive, mpi::Count count,
                                int element, int reduction, bool background) {
        return reduce_scatter(group, pointer(send), pointer(receive), count, element, reduction,
                              background);
      });
}

void bind_copies(Bound& bound) {
  bound
      .def("broadcast",
           [](const Group& group, Address buffer, mpi::Count bytes, int root, bool background) {
             return broadcast(group, pointer(buffer), bytes, root, background);
           })
      .def("barrier",
           [](const Group& group, bool background) { return barrier(group, background); })
      .def("send",
           [](const Group& group, Address buffer, mpi::Count bytes, int peer, int tag,
              bool background) {
             return send(group, pointer(buffer), bytes, peer, tag, background);
           })
      .def("receive", [](const Group& group, Address buffer, mpi::Count bytes, int peer, int tag,
                         bool background) {
        return receive(group, pointer(buffer), bytes, peer, tag, background);
      });
}

void bind_copies_of_parts(Bound& bound) {
  bound
      .def("all_gather",
           [](const Group& group, Address send, mpi::Count bytes, Address receive, Counts counts,
              Places places, bool background) {
             return all_gather(group, pointer(send), bytes, pointer(receive),
                               {std::move(counts), std::move(places)}, background);
           })
      .def("gather",
           [](const Group& group, Address send, mpi::Count bytes, Address receive, Counts counts,
              Places places, int root, bool background) {
             return gather(group, pointer(send), bytes, pointer(receive),
                           {std::move(counts), std::move(places)}, root, background);
           })
      .def("scatter",
           [](const Group& group, Address send, Counts counts, Places places, Address receive,
              mpi::Count bytes, int root, bool background) {
             return scatter(group, pointer(send), {std::move(counts), std::move(places)},
                            pointer(receive), bytes, root, background);
           })
      .def("all_to_all", [](const Group& group, Address send, Counts send_counts,
                            Places send_places, Address receive, Counts counts, Places places,
                            bool background) {
        return all_to_all(group, pointer(send), {std::move(send_counts), std::move(send_places)},
                          pointer(receive), {std::move(counts), std::move(places)}, background);
      });
}

}  // namespace
}  // namespace flambeau::distributed

PYBIND11_MODULE(_engine, module) {
  using namespace flambeau::distributed;
  const py::call_guard<py::gil_scoped_release> without_gil;
  py::class_<Request, Posted>(module, "Request", py::module_local())
      .def("wait", &Request::wait, without_gil)
      .def("expire", &Request::expire)
      .def("done", &Request::done)
      .def("error", &Request::error)
      .def("source", &Request::source);
  Bound bound(module, "Communicator", py::module_local());
  bind_reductions(bound);
  bind_copies(bound);
  bind_copies_of_parts(bound);
  module.def("load", &mpi::load);
  module.def("start", &start, without_gil);
  module.def("stop", &stop);
  module.def("finalize", &finalize, without_gil);
  module.def("departed", &departed);
  module.def("create", &create, without_gil);
}
