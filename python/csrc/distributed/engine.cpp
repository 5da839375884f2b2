#include "python/csrc/distributed/engine.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "python/csrc/distributed/reductions.h"

namespace flambeau::distributed {
namespace {

constexpr double kYieldFor = 0.05;  // seconds of a wait in which the thread yields between tests
constexpr double kDozeAfter = 1.0;  // seconds after which it sleeps longer
constexpr mpi::Count kPiece = 1 << 20;  // bytes of all_reduce at once: its temporary fits the cache
constexpr double kExplainFor =
    1.0;  // seconds after an error of MPI in which a death may be noticed
constexpr useconds_t kSleep = 50, kDoze = 300;  // us between tests, afterwards

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void pause_after(double waited) {
  if (waited < kYieldFor) {
    sched_yield();
  } else {
    usleep(waited < kDozeAfter ? kSleep : kDoze);
  }
}

struct Departure {
  double noticed;
  double deadline;  // when operations fail that need the rank
  double grace;
  std::string why;
};

// Starts a thread that receives no signals, which are left to Python's threads.
template <typename Function>
std::thread without_signals(Function run) {
  sigset_t all, previous;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &previous);
  std::thread made(std::move(run));
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  return made;
}

}  // namespace

// The state that all requests share. It is never destroyed: threads may outlive the interpreter.
class Engine {
 public:
  std::mutex guard;
  std::condition_variable wakes;
  std::vector<Posted> background;  // what the thread tests
  std::map<int, Departure> departures;
  bool stopped = false, has_thread = false;
  int rank = -1, size = 0;
  std::atomic<bool> forked{false};

  static Engine& get() {
    static Engine* engine = [] {
      pthread_atfork(nullptr, nullptr, [] { get().forked = true; });
      return new Engine;
    }();
    return *engine;
  }

  void check_process() const {
    if (forked)
      throw std::runtime_error(
          "expected the process that initialised communication, got a fork of it");
  }

  // Why an operation cannot end any more; empty if it can. The first departure tells, since others
  // may follow from it. After an error there is no grace.
  std::string obstacle(const std::vector<int>& peers, double posted,
                       bool has_failed = false) const {
    const double time = now();
    const Departure* first = nullptr;
    for (const auto& [rank, departure] : departures) {
      const double deadline = std::max(departure.deadline, posted + departure.grace);
      if (!has_failed && time <= deadline) continue;
      if (std::find(peers.begin(), peers.end(), rank) == peers.end()) continue;
      if (!first || departure.noticed < first->noticed) first = &departure;
    }
    if (first) return first->why;
    return stopped ? "communication has been shut down" : "";
  }

  template <typename Start>
  Posted post(const Group& group, std::vector<int> peers, bool in_background, Start start) {
    check_process();
    auto request = std::make_shared<Request>(group, std::move(peers));
    const std::lock_guard<std::mutex> lock(guard);
    if (!group->broken.empty()) throw std::runtime_error(group->broken);
    if (stopped) throw std::runtime_error("communication has been shut down");
    if (const int error = start(*request)) {
      request->mpi_error_ = mpi::describe(error);
      request->erred_ = now();
    }
    if (in_background) {
      background.push_back(request);
      if (!std::exchange(has_thread, true)) without_signals([this] { run(); }).detach();
      wakes.notify_one();
    }
    return request;
  }

  // Where MPI writes the handle of the next part of an operation.
  static mpi::Handle* handle(Request& request) {
    return &request.handles_.emplace_back(mpi::request_null());
  }

  static void keep(Request& request, Parts& first) {
    request.counts_[0] = std::move(first.counts);
    request.places_[0] = std::move(first.places);
  }

  static void keep(Request& request, Parts& first, Parts& second) {
    keep(request, first);
    request.counts_[1] = std::move(second.counts);
    request.places_[1] = std::move(second.places);
  }

  static const mpi::Count* counts(const Request& request, int i) {
    return request.counts_[i].data();
  }
  static const mpi::Aint* places(const Request& request, int i) {
    return request.places_[i].data();
  }

 private:
  void run() {
    std::unique_lock<std::mutex> lock(guard);
    while (!stopped) {
      wakes.wait(lock, [this] { return stopped || !background.empty(); });
      if (stopped) return;
      for (const auto& request : background) request->test();
      std::erase_if(background, [](const Posted& request) { return request->done_; });
      lock.unlock();
      usleep(kSleep);
      lock.lock();
    }
  }
};

Request::Request(Group communicator, std::vector<int> peers)
    : communicator_(std::move(communicator)), peers_(std::move(peers)), posted_(now()) {}

void Request::fail(const std::string& why) {
  done_ = true;
  error_ = why;
  if (communicator_->broken.empty()) communicator_->broken = why;
}

void Request::explain() {
  const Engine& engine = Engine::get();
  const std::string why = engine.obstacle(peers_, posted_, /*has_failed=*/true);
  if (!why.empty()) {
    fail(why);
  } else if (now() - erred_ > kExplainFor) {
    fail(mpi_error_);
  }
}

void Request::test() {
  if (done_) return;
  if (!mpi_error_.empty()) return explain();
  Engine& engine = Engine::get();
  if (!engine.stopped) {
    for (int ended = 1; ended && ended_ < handles_.size(); ended_ += ended) {
      mpi::Status status{};
      const int error = mpi::library().test(&handles_[ended_], &ended, &status);
      if (error != 0) {
        mpi_error_ = mpi::describe(error);
        erred_ = now();
        return explain();
      }
      source_ = status.source;
    }
    done_ = ended_ == handles_.size();
    if (done_) return;
  }
  if (engine.departures.empty() && !engine.stopped) return;
  const std::string why = engine.obstacle(peers_, posted_);
  if (!why.empty()) fail(why);
}

bool Request::done() {
  Engine::get().check_process();
  const std::lock_guard<std::mutex> lock(Engine::get().guard);
  test();
  return done_;
}

std::string Request::error() {
  const std::lock_guard<std::mutex> lock(Engine::get().guard);
  return error_;
}

int Request::source() {
  const std::lock_guard<std::mutex> lock(Engine::get().guard);
  return source_;
}

bool Request::wait(double seconds) {
  const double began = now();
  while (!done()) {
    const double waited = now() - began;
    if (waited > seconds) return false;
    pause_after(waited);
  }
  return true;
}

void Request::expire(const std::string& why) {
  const std::lock_guard<std::mutex> lock(Engine::get().guard);
  test();
  if (!done_) fail(why);
}

// --- setting up
// ---------------------------------------------------------------------------------------------------

namespace {

// Runs a function that blocks inside MPI in a thread of its own, and gives up waiting for it when a
// peer has ended or the time has passed; the thread then stays behind.
void run_bounded(std::function<void()> blocking, double seconds, const std::vector<int>& peers) {
  struct State {
    std::atomic<bool> ended{false};
    std::exception_ptr error;
  };
  auto state = std::make_shared<State>();
  without_signals([state, blocking = std::move(blocking)] {
    try {
      blocking();
    } catch (...) {
      state->error = std::current_exception();
    }
    state->ended = true;
  }).detach();
  Engine& engine = Engine::get();
  const double began = now();
  while (!state->ended) {
    const double waited = now() - began;
    std::string why = waited > seconds ? "timed out while setting up communication" : "";
    if (why.empty()) {
      const std::lock_guard<std::mutex> lock(engine.guard);
      why = engine.obstacle(peers, began);
    }
    if (!why.empty() && !state->ended) throw std::runtime_error(why);
    usleep(kSleep);
  }
  if (!state->error) return;
  for (const double erred = now(); !peers.empty() && now() - erred < kExplainFor; usleep(kSleep)) {
    const std::lock_guard<std::mutex> lock(engine.guard);
    const std::string why = engine.obstacle(peers, began, /*has_failed=*/true);
    if (!why.empty()) throw std::runtime_error(why);
  }
  std::rethrow_exception(state->error);
}

}  // namespace

std::pair<int, int> start(double seconds) {
  Engine& engine = Engine::get();
  engine.check_process();
  if (engine.size == 0) {
    auto found = std::make_shared<std::pair<int, int>>();
    run_bounded(
        [found] {
          const mpi::Library& library = mpi::library();
          int initialized = 0, provided = 0;
          mpi::check(library.initialized(&initialized), "MPI_Initialized");
          if (!initialized) {
            mpi::check(library.init_thread(nullptr, nullptr, mpi::kThreadMultiple, &provided),
                       "MPI_Init_thread");
            if (provided < mpi::kThreadMultiple) {
              throw std::runtime_error(
                  "expected an MPI library for several threads, got one without");
            }
          }
          mpi::check(library.comm_set_errhandler(mpi::comm_world(), mpi::errors_return()),
                     "MPI_Comm_set_errhandler");
          mpi::check(library.comm_rank(mpi::comm_world(), &found->first), "MPI_Comm_rank");
          mpi::check(library.comm_size(mpi::comm_world(), &found->second), "MPI_Comm_size");
        },
        seconds, {});
    engine.rank = found->first;
    engine.size = found->second;
  }
  return {engine.rank, engine.size};
}

void stop() {
  Engine& engine = Engine::get();
  if (engine.forked) return;
  const std::lock_guard<std::mutex> lock(engine.guard);
  engine.stopped = true;
  engine.wakes.notify_all();
}

bool finalize(double seconds) {
  try {
    run_bounded([] { mpi::library().finalize(); }, seconds, {});
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

void departed(int rank, double grace, const std::string& why) {
  Engine& engine = Engine::get();
  const std::lock_guard<std::mutex> lock(engine.guard);
  engine.departures.try_emplace(rank, Departure{now(), now() + grace, grace, why});
}

Group create(const std::vector<int>& ranks, int tag, double seconds) {
  Engine& engine = Engine::get();
  engine.check_process();
  auto made = std::make_shared<Communicator>();
  made->members = ranks;
  made->rank = static_cast<int>(std::find(ranks.begin(), ranks.end(), engine.rank) - ranks.begin());
  run_bounded(
      [made, tag] {
        const mpi::Library& library = mpi::library();
        mpi::Group world{}, part{};
        mpi::check(library.comm_group(mpi::comm_world(), &world), "MPI_Comm_group");
        const int size = static_cast<int>(made->members.size());
        mpi::check(library.group_incl(world, size, made->members.data(), &part), "MPI_Group_incl");
        mpi::check(library.comm_create_group(mpi::comm_world(), part, tag, &made->handle),
                   "MPI_Comm_create_group");
        mpi::check(library.comm_set_errhandler(made->handle, mpi::errors_return()),
                   "MPI_Comm_set_errhandler");
        library.group_free(&part);
        library.group_free(&world);
      },
      seconds, ranks);
  return made;
}

// --- operations
// ---------------------------------------------------------------------------------------------------

namespace {

Reducer checked_reducer(int element, int reduction) {
  return reducer(static_cast<Element>(element), static_cast<Reduction>(reduction));
}

// The process itself never departs.
std::vector<int> only(const Group& group, int place) {
  return {group->members.at(static_cast<size_t>(place))};
}

}  // namespace

Posted all_reduce(const Group& group, const void* send, void* receive, mpi::Count count,
                  int element, int reduction, bool background) {
  const Reducer how = checked_reducer(element, reduction);
  const auto size = static_cast<mpi::Count>(element_size(static_cast<Element>(element)));
  const mpi::Count piece = kPiece / size;
  const auto part = [&](Request& request, mpi::Count first, mpi::Count length) {
    auto* target = static_cast<char*>(receive) + first * size;
    const void* source = static_cast<const char*>(send) + first * size;
    return mpi::library().iallreduce(send == receive ? mpi::in_place() : source, target, length,
                                     how.type, how.op, group->handle, Engine::handle(request));
  };
  return Engine::get().post(group, group->members, background, [&](Request& request) {
    if (count <= 2 * piece) return part(request, 0, count);
    int error = 0;
    for (mpi::Count first = 0; first < count && error == 0; first += piece) {
      error = part(request, first, std::min(piece, count - first));
    }
    return error;
  });
}

Posted reduce(const Group& group, const void* send, void* receive, mpi::Count count, int element,
              int reduction, int root, bool background) {
  const Reducer how = checked_reducer(element, reduction);
  const void* source = send == receive && group->rank == root ? mpi::in_place() : send;
  return Engine::get().post(group, group->members, background, [&](Request& request) {
    return mpi::library().ireduce(source, receive, count, how.type, how.op, root, group->handle,
                                  Engine::handle(request));
  });
}

Posted reduce_scatter(const Group& group, const void* send, void* receive, mpi::Count count,
                      int element, int reduction, bool background) {
  const Reducer how = checked_reducer(element, reduction);
  return Engine::get().post(group, group->members, background, [&](Request& request) {
    return mpi::library().ireduce_scatter_block(send, receive, count, how.type, how.op,
                                                group->handle, Engine::handle(request));
  });
}

Posted broadcast(const Group& group, void* buffer, mpi::Count bytes, int root, bool background) {
  return Engine::get().post(group, group->members, background, [&](Request& request) {
    return mpi::library().ibcast(buffer, bytes, mpi::byte(), root, group->handle,
                                 Engine::handle(request));
  });
}

Posted all_gather(const Group& group, const void* send, mpi::Count bytes, void* receive,
                  Parts parts, bool background) {
  return Engine::get().post(group, group->members, background, [&](Request& request) {
    Engine::keep(request, parts);
    return mpi::library().iallgatherv(send, bytes, mpi::byte(), receive, Engine::counts(request, 0),
                                      Engine::places(request, 0), mpi::byte(), group->handle,
                                      Engine::handle(request));
  });
}

Posted gather(const Group& group, const void* send, mpi::Count bytes, void* receive, Parts parts,
              int root, bool background) {
  return Engine::get().post(group, group->members, background, [&](Request& request) {
    Engine::keep(request, parts);
    return mpi::library().igatherv(send, bytes, mpi::byte(), receive, Engine::counts(request, 0),
                                   Engine::places(request, 0), mpi::byte(), root, group->handle,
                                   Engine::handle(request));
  });
}

Posted scatter(const Group& group, const void* send, Parts parts, void* receive, mpi::Count bytes,
               int root, bool background) {
  return Engine::get().post(group, group->members, background, [&](Request& request) {
    Engine::keep(request, parts);
    return mpi::library().iscatterv(send, Engine::counts(request, 0), Engine::places(request, 0),
                                    mpi::byte(), receive, bytes, mpi::byte(), root, group->handle,
                                    Engine::handle(request));
  });
}

Posted all_to_all(const Group& group, const void* send, Parts sent, void* receive, Parts received,
                  bool background) {
  return Engine::get().post(group, group->members, background, [&](Request& request) {
    Engine::keep(request, sent, received);
    return mpi::library().ialltoallv(send, Engine::counts(request, 0), Engine::places(request, 0),
                                     mpi::byte(), receive, Engine::counts(request, 1),
                                     Engine::places(request, 1), mpi::byte(), group->handle,
                                     Engine::handle(request));
  });
}

Posted barrier(const Group& group, bool background) {
  return Engine::get().post(group, group->members, background, [&](Request& request) {
    return mpi::library().ibarrier(group->handle, Engine::handle(request));
  });
}

Posted send(const Group& group, const void* buffer, mpi::Count bytes, int peer, int tag,
            bool background) {
  return Engine::get().post(group, only(group, peer), background, [&](Request& request) {
    return mpi::library().isend(buffer, bytes, mpi::byte(), peer, tag, group->handle,
                                Engine::handle(request));
  });
}

Posted receive(const Group& group, void* buffer, mpi::Count bytes, int peer, int tag,
               bool background) {
  const int source = peer < 0 ? mpi::kAnySource : peer;
  return Engine::get().post(group, peer < 0 ? group->members : only(group, peer), background,
                            [&](Request& request) {
                              return mpi::library().irecv(buffer, bytes, mpi::byte(), source, tag,
                                                          group->handle, Engine::handle(request));
                            });
}

}  // namespace flambeau::distributed
