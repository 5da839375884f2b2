#pragma once
// torch::data: datasets, samplers, and loaders whose workers are threads.
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "api/namespaces.h"

namespace flambeau::api::data {

template <typename Data = Tensor, typename Target = Tensor>
struct Example {
  Data data;
  Target target;
};

namespace transforms {

// Examples of a batch as one example, each part along a new first dimension.
template <typename T = Example<>>
struct Stack {
  T operator()(std::vector<T> examples) const {
    std::vector<Tensor> data, target;
    for (T& example : examples) {
      data.push_back(std::move(example.data));
      target.push_back(std::move(example.target));
    }
    return {api::stack(data), api::stack(target)};
  }
};

}  // namespace transforms

namespace datasets {

// A dataset with another function of its batches: what map() returns.
template <typename Source, typename Transform>
class MapDataset {
 public:
  using BatchType =
      std::invoke_result_t<Transform, typename std::remove_reference_t<Source>::BatchType>;
  MapDataset(Source source, Transform transform)
      : source_(std::move(source)), transform_(std::move(transform)) {}
  BatchType get_batch(ArrayRef<size_t> indices) { return transform_(source_.get_batch(indices)); }
  std::optional<size_t> size() const { return source_.size(); }

 private:
  Source source_;
  Transform transform_;
};

// Derived classes define get(i), and size(). With worker threads, get(i) is called by several.
template <typename Self, typename ExampleOfSelf = Example<>>
class Dataset {
 public:
  using ExampleType = ExampleOfSelf;
  using BatchType = std::vector<ExampleType>;
  virtual ~Dataset() = default;
  virtual ExampleType get(size_t index) = 0;
  virtual std::optional<size_t> size() const = 0;
  BatchType get_batch(ArrayRef<size_t> indices) {
    BatchType batch;
    for (const size_t i : indices) batch.push_back(get(i));
    return batch;
  }
  template <typename Transform>
  MapDataset<Self, Transform> map(Transform transform) const& {
    return {static_cast<const Self&>(*this), std::move(transform)};
  }
  template <typename Transform>
  MapDataset<Self, Transform> map(Transform transform) && {
    return {std::move(static_cast<Self&>(*this)), std::move(transform)};
  }
};

// Rows of two tensors.
class PairDataset : public Dataset<PairDataset> {
 public:
  PairDataset(Tensor data, Tensor target) : data_(std::move(data)), target_(std::move(target)) {
    check_value(data_.dim() > 0 && target_.dim() > 0 && data_.size(0) == target_.size(0),
                "PairDataset: expected tensors with equal first dimensions, got sizes ",
                data_.sizes(), " and ", target_.sizes());
  }
  Example<> get(size_t i) override {
    return {data_[static_cast<int64_t>(i)], target_[static_cast<int64_t>(i)]};
  }
  std::optional<size_t> size() const override { return static_cast<size_t>(data_.size(0)); }

 private:
  Tensor data_, target_;
};

}  // namespace datasets

namespace samplers {

class Sampler {
 public:
  virtual ~Sampler() = default;
  virtual void reset() = 0;
  // The next `count` indices, fewer at the end of the data; no value after the last one.
  std::optional<std::vector<size_t>> next(size_t count);

 protected:
  std::vector<size_t> order_;
  size_t at_ = 0;
};
class SequentialSampler : public Sampler {
 public:
  explicit SequentialSampler(size_t size);
  void reset() override { at_ = 0; }
};
// A new random order after each reset(), by the default generator.
class RandomSampler : public Sampler {
 public:
  explicit RandomSampler(int64_t size) : size_(size) { RandomSampler::reset(); }
  void reset() override;

 private:
  int64_t size_;
};

}  // namespace samplers

class DataLoaderOptions {
 public:
  DataLoaderOptions(size_t batch_size = 1) : batch_size_(batch_size) {}  // NOLINT
  size_t batch_size() const { return batch_size_; }
  DataLoaderOptions& batch_size(size_t n) { return batch_size_ = n, *this; }
  size_t workers() const { return workers_; }
  DataLoaderOptions& workers(size_t n) { return workers_ = n, *this; }
  bool drop_last() const { return drop_last_; }
  DataLoaderOptions& drop_last(bool on) { return drop_last_ = on, *this; }

 private:
  size_t batch_size_;
  size_t workers_ = 0;
  bool drop_last_ = false;
};

// Batches in the order of the sampler. Each begin() starts an epoch; one epoch at a time.
template <typename Dataset, typename Sampler>
class DataLoader {
 public:
  using Batch = typename Dataset::BatchType;

  DataLoader(Dataset dataset, Sampler sampler, DataLoaderOptions options)
      : dataset_(std::move(dataset)), sampler_(std::move(sampler)), options_(options) {
    check_value(options.batch_size() > 0,
                "make_data_loader: expected a batch_size of 1 or more, got 0");
  }
  ~DataLoader() { stop(); }
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  class Iterator {
   public:
    explicit Iterator(DataLoader* loader) : loader_(loader) { ++*this; }
    Batch& operator*() { return *batch_; }
    Batch* operator->() { return &*batch_; }
    Iterator& operator++() {
      batch_ = loader_ ? loader_->next() : std::nullopt;
      return *this;
    }
    bool operator!=(const Iterator& o) const { return batch_.has_value() != o.batch_.has_value(); }

   private:
    DataLoader* loader_;
    std::optional<Batch> batch_;
  };
  Iterator begin() {
    start();
    return Iterator(this);
  }
  Iterator end() { return Iterator(nullptr); }

 private:
  std::optional<std::vector<size_t>> indices() {
    auto list = sampler_.next(options_.batch_size());
    const bool is_short = list && list->size() < options_.batch_size();
    return is_short && options_.drop_last() ? std::nullopt : std::move(list);
  }

  void start() {
    stop();
    sampler_.reset();
    given_ = taken_ = 0;
    is_stopping_ = is_exhausted_ = false;
    ready_.clear();
    for (size_t i = 0; i < options_.workers(); ++i) threads_.emplace_back([this] { work(); });
  }
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  struct Result {
    std::optional<Batch> batch;
    std::exception_ptr error;
  };
  Result fetched(const std::vector<size_t>& list) {
    try {
      return {dataset_.get_batch(list), nullptr};
    } catch (...) {
      return {std::nullopt, std::current_exception()};
    }
  }
  // Two batches per worker are kept ahead of the reader.
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] {
        return is_stopping_ || is_exhausted_ || given_ < taken_ + 2 * options_.workers();
      });
      if (is_stopping_ || is_exhausted_) return;
      const auto list = indices();
      if (!list) {
        is_exhausted_ = true;
        changed_.notify_all();
        return;
      }
      const size_t place = given_++;
      lock.unlock();
      Result result = fetched(*list);
      lock.lock();
      ready_.emplace(place, std::move(result));
      changed_.notify_all();
    }
  }

  std::optional<Batch> next() {
    if (threads_.empty()) {
      const auto list = indices();
      if (!list) return std::nullopt;
      return dataset_.get_batch(*list);
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock,
                  [&] { return ready_.count(taken_) != 0 || (is_exhausted_ && taken_ == given_); });
    if (ready_.count(taken_) == 0) return std::nullopt;
    Result result = std::move(ready_.extract(taken_).mapped());
    ++taken_;
    changed_.notify_all();
    if (result.error) std::rethrow_exception(result.error);
    return std::move(result.batch);
  }

  Dataset dataset_;
  Sampler sampler_;
  DataLoaderOptions options_;
  std::mutex mutex_;  // what follows, and the sampler
  std::condition_variable changed_;
  std::map<size_t, Result> ready_;
  size_t given_ = 0, taken_ = 0;
  bool is_stopping_ = false, is_exhausted_ = false;
  std::vector<std::thread> threads_;
};

template <typename Sampler = samplers::RandomSampler, typename Dataset>
auto make_data_loader(Dataset dataset, DataLoaderOptions options = {}) {
  const std::optional<size_t> size = dataset.size();
  check(size.has_value(), "make_data_loader: expected a dataset with a size, got one without");
  return std::make_unique<DataLoader<Dataset, Sampler>>(std::move(dataset), Sampler(*size),
                                                        options);
}

}  // namespace flambeau::api::data
