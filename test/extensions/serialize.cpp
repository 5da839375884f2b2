// Files of tensors, modules and optimizers for test_serialize.py.
#include <torch/extension.h>
#include <torch/torch.h>

#include <fstream>
#include <sstream>
#include <thread>

namespace nn = torch::nn;
namespace optim = torch::optim;
using torch::Tensor;
using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

namespace {

struct NetImpl : nn::Cloneable<NetImpl> {
  NetImpl() { reset(); }
  void reset() override {
    features = register_module("features", nn::Sequential());
    features->push_back(nn::Conv2d(nn::Conv2dOptions(1, 4, 3).padding(1)));
    features->push_back(nn::BatchNorm2d(4));
    features->push_back(nn::ReLU());
    features->push_back("pool", nn::MaxPool2d(2));
    head = register_module("head", nn::Linear(nn::LinearOptions(16, 3).bias(false)));
    scale = register_parameter("scale", torch::full({3}, 2.0));
    shift = register_buffer("shift", torch::arange(3).to(torch::kFloat));
  }
  Tensor forward(const Tensor& x) { return head(features->forward(x).flatten(1)) * scale + shift; }
  nn::Sequential features = nullptr;
  nn::Linear head = nullptr;
  Tensor scale, shift;
};
TORCH_MODULE(Net);

// The output after `steps` of training from a seed; the module is written to `path`.
Tensor save_net(const std::string& path, const Tensor& x, int steps) {
  torch::manual_seed(5);
  Net net;
  for (int i = 0; i < steps; ++i) net(x).sum().backward();
  net->eval();
  torch::save(net, path);
  return net(x).detach();
}
Tensor load_net(const std::string& path, const Tensor& x) {
  torch::manual_seed(77);
  Net net;
  const Tensor held = net->head->weight;
  torch::load(net, path);
  TORCH_CHECK(held.is_alias_of(net->head->weight) && net->scale.requires_grad() &&
                  net->scale.is_leaf() && !net->shift.requires_grad(),
              "the parameters of a loaded module are those that it had");
  net->eval();
  return net(x).detach();
}
// A shared_ptr of a base, in another dtype, by a stream.
torch::ScalarType load_doubles(const std::string& path) {
  Net net;
  net->to(torch::kDouble);
  std::stringstream stream;
  torch::save(std::shared_ptr<nn::Module>(net.ptr()), stream);
  auto again = std::make_shared<NetImpl>();
  std::shared_ptr<nn::Module> base = again;
  torch::load(base, stream);
  again->forward(torch::ones({1, 1, 4, 4}, torch::kDouble)).sum().backward();
  torch::save(again, path);
  return again->head->weight.dtype();
}

// --- optimizers
// ------------------------------------------------------------------------------------

std::unique_ptr<optim::Optimizer> optimizer_of(const std::string& name, const Tensor& a,
                                               const Tensor& b) {
  using namespace optim;
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<Tensor>{a});
  groups.emplace_back(std::vector<Tensor>{b});
  if (name == "SGD") return std::make_unique<SGD>(groups, SGDOptions(0.1));
  if (name == "Momentum") {
    return std::make_unique<SGD>(groups, SGDOptions(0.1).momentum(0.9).nesterov(true));
  }
  if (name == "Adam") return std::make_unique<Adam>(groups, AdamOptions(0.1).amsgrad(true));
  if (name == "AdamW") return std::make_unique<AdamW>(groups, AdamWOptions(0.1).betas({0.8, 0.9}));
  if (name == "RMSprop") {
    return std::make_unique<RMSprop>(groups, RMSpropOptions(0.1).momentum(0.5).centered(true));
  }
  return std::make_unique<Adagrad>(groups, AdagradOptions(0.1).initial_accumulator_value(0.5));
}

void descend(optim::Optimizer& optimizer, const Tensor& a, const Tensor& b, int steps) {
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    ((a * a * a * a).sum() + (b * b).sum()).backward();
    optimizer.step();
  }
}
// Takes steps; `from` and `to` are files of the optimizer, or "".
std::pair<Tensor, Tensor> continued(const std::string& name, const Tensor& a, const Tensor& b,
                                    int steps, const std::string& from, const std::string& to) {
  const Tensor x = a.detach().clone().requires_grad_(), y = b.detach().clone().requires_grad_();
  const auto optimizer = optimizer_of(name, x, y);
  if (from.empty()) {
    optimizer->param_groups()[1].options().set_lr(0.02);
  } else {
    torch::load(*optimizer, from);
  }
  descend(*optimizer, x, y, steps);
  if (!to.empty()) torch::save(*optimizer, to);
  return {x.detach(), y.detach()};
}
void load_optimizer(const std::string& name, const std::string& path, int64_t size) {
  const Tensor a = torch::ones({size}).requires_grad_(), b = torch::ones({2}).requires_grad_();
  const auto optimizer = optimizer_of(name, a, b);
  torch::load(*optimizer, path);
}

// --- archives
// --------------------------------------------------------------------------------------

void save_checkpoint(const std::string& path) {
  torch::manual_seed(5);
  Net net;
  OutputArchive model, archive;
  net->save(model);
  archive.write("model", model);
  archive.write("epoch", torch::IValue(int64_t{3}));
  archive.write("loss", torch::IValue(0.25));
  archive.write("name", torch::IValue("net"));
  archive.write("done", torch::IValue(true));
  archive.write("nothing", torch::IValue());
  archive.write("sizes", torch::IValue(std::vector<int64_t>{1, 1 << 20, int64_t{1} << 40, -1}));
  archive.write("rates", torch::IValue(std::vector<double>{0.5, 1e300}));
  archive.write("weights", torch::IValue(std::vector<Tensor>{torch::ones({2}), torch::zeros({})}));
  archive("mean", torch::full({2}, 4.0), /*is_buffer=*/true);
  archive.save_to(path);
}
std::pair<Tensor, std::vector<std::string>> load_checkpoint(const std::string& path,
                                                            const Tensor& x) {
  InputArchive archive, model, optimizer;
  archive.load_from(path);
  archive.read("model", model);
  Net net;
  net->load(model);
  net->eval();
  torch::IValue epoch, sizes, name, missing;
  archive("epoch", epoch);
  archive("sizes", sizes);
  archive("name", name);
  Tensor mean;
  archive("mean", mean);
  TORCH_CHECK(epoch.toInt() == 3 && sizes.toIntVector().at(2) == int64_t{1} << 40 &&
                  name.toStringRef() == "net" && mean.sum().item<double>() == 8,
              "the values of a checkpoint are those that were written");
  TORCH_CHECK(!archive.try_read("no", missing) && !archive.try_read("no", mean) &&
                  !archive.try_read("no", optimizer) && !archive.try_read("mod", optimizer),
              "keys that are not there are not read");
  return {net(x).detach(), archive.keys()};
}

Tensor load_tensor(const std::string& path) {
  Tensor tensor;
  torch::load(tensor, path, torch::kCPU);
  return tensor;
}
Tensor load_over(const std::string& path, const Tensor& target) {
  Tensor held = target;
  torch::load(held, path);
  return held;
}
void save_tensor(const Tensor& tensor, const std::string& path) { torch::save(tensor, path); }
std::vector<Tensor> load_tensors(const std::string& path) {
  std::vector<Tensor> tensors;
  torch::load(tensors, path);
  return tensors;
}
void save_tensors(const std::vector<Tensor>& tensors, const std::string& path) {
  torch::save(tensors, path);
}
py::bytes pickled(const Tensor& tensor) {
  const std::vector<char> bytes = torch::pickle_save(tensor);
  return {bytes.data(), bytes.size()};
}
Tensor unpickled(const std::string& bytes) {
  return torch::pickle_load(std::vector<char>(bytes.begin(), bytes.end())).toTensor();
}
// By functions instead of files.
Tensor through_functions(const Tensor& tensor) {
  std::string bytes;
  torch::save(tensor, [&](const void* data, size_t size) -> size_t {
    bytes.append(static_cast<const char*>(data), size);
    return size;
  });
  InputArchive archive;
  Tensor out;
  archive.load_from([&](uint64_t at, void* to,
                        size_t size) { return bytes.copy(static_cast<char*>(to), size, at); },
                    [&] { return bytes.size(); });
  archive >> out;
  TORCH_CHECK(out.equal(tensor), "expected equal tensors");
  torch::load(out, bytes.data(), bytes.size());
  return out;
}

// Each thread writes files of one number under one name, and reads what is there.
int64_t written_at_once(const std::string& path, int threads) {
  std::atomic<int64_t> wrong{0};
  std::vector<std::thread> running;
  torch::save(torch::zeros({100}), path);
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      for (int k = 0; k < 20; ++k) {
        torch::save(torch::full({100 + i}, i), path);
        const Tensor found = load_tensor(path);
        wrong += found.ne(found[0]).sum().item<int64_t>();
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  return wrong;
}

void refuse(const std::string& what, const std::string& path) {
  OutputArchive out;
  InputArchive in;
  Tensor tensor;
  torch::IValue value;
  if (what == "undefined") torch::save(Tensor(), path);
  if (what == "meta") torch::save(torch::ones({2}, torch::TensorOptions(torch::kMeta)), path);
  if (what == "twice") out.write("a", torch::ones({1})), out.write("a", torch::ones({1}));
  if (what == "both") out.write("a", torch::ones({1})), out << torch::ones({1});
  if (what == "folder") torch::save(torch::ones({1}), path + "/no/x.pt");
  if (what == "no file") torch::load(tensor, path + "/none.pt");
  if (what == "complex")
    out.write("a", torch::IValue(torch::ones({}, torch::kComplexFloat).item()));
  if (what == "device") out.write("a", torch::IValue(torch::Device("cpu")));
  if (what == "null") torch::save(std::shared_ptr<nn::Module>(), path);
  if (what == "empty holder") torch::save(nn::Linear(nullptr), path);
  if (what == "stream") {
    std::ofstream closed;
    torch::save(torch::ones({1}), closed);
  }
  if (what == "empty archive") in.read("a", tensor);
  if (what == "no value") in.read("a", value);
}
void refuse_net(const std::string& path) {
  Net net;
  torch::load(net, path);
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("save_net", &save_net);
  m.def("load_net", &load_net);
  m.def("load_doubles", &load_doubles);
  m.def("continued", &continued);
  m.def("load_optimizer", &load_optimizer);
  m.def("save_checkpoint", &save_checkpoint);
  m.def("load_checkpoint", &load_checkpoint);
  m.def("load_tensor", &load_tensor);
  m.def("load_over", &load_over);
  m.def("save_tensor", &save_tensor);
  m.def("load_tensors", &load_tensors);
  m.def("save_tensors", &save_tensors);
  m.def("pickled", &pickled);
  m.def("unpickled", &unpickled);
  m.def("through_functions", &through_functions);
  m.def("written_at_once", &written_at_once, py::call_guard<py::gil_scoped_release>());
  m.def("refuse", &refuse);
  m.def("refuse_net", &refuse_net);
}
