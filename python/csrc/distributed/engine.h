// Communication of one process with the others of its job, over MPI.
//
// Nothing blocks inside MPI once a group exists: operations are posted, and a thread that waits for
// one tests it until it has ended. An operation whose peer has ended, or whose time has passed,
// fails; its communicator is broken from then on, because MPI cannot take an operation back. The
// engine's thread tests the operations that no other thread waits for, so that they proceed while
// the process computes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "python/csrc/distributed/mpi_abi.h"

namespace flambeau::distributed {

struct Communicator {
  mpi::Comm handle;
  std::vector<int> members;  // ranks in the whole job, in the order of the group
  int rank;                  // this process's place in `members`
  std::string broken;        // why nothing can be posted any more; guarded by the engine's lock
};

// One posted operation.
class Request {
 public:
  Request(std::shared_ptr<Communicator> communicator, std::vector<int> peers);

  // Waits until the operation has ended, well or not, for at most `seconds`. Returns whether it
  // has.
  bool wait(double seconds);

  // Lets the operation fail unless it has ended.
  void expire(const std::string& why);

  // Whether the operation has ended, well or not; tests it once.
  bool done();

  // Why it failed; empty while it has not.
  std::string error();

  // The place in the group of the process that sent what was received.
  int source();

 private:
  friend class Engine;

  void test();                        // with the engine's lock
  void explain();                     // the same, after an error of MPI
  void fail(const std::string& why);  // with the engine's lock; breaks the communicator

  std::shared_ptr<Communicator> communicator_;
  std::vector<int> peers_;             // ranks in the job without which the operation cannot end
  std::vector<mpi::Count> counts_[2];  // MPI reads these until the operation ends
  std::vector<mpi::Aint> places_[2];
  std::vector<mpi::Handle> handles_;  // one for each part that was posted
  size_t ended_ = 0;                  // how many of them have ended, from the first
  double posted_ = 0;                 // seconds
  bool done_ = false;
  std::string error_;
  std::string mpi_error_;  // not yet told: soon the engine may know which rank has died
  double erred_ = 0;       // seconds
  int source_ = -1;
};

// Lengths in bytes and addresses, relative to the buffer, of the part of each member.
struct Parts {
  std::vector<mpi::Count> counts;
  std::vector<mpi::Aint> places;
};

using Posted = std::shared_ptr<Request>;
using Group = std::shared_ptr<Communicator>;

// Initialises MPI, with the process manager that PMI_FD and its like name. Returns rank and size of
// the job. Throws std::runtime_error when `seconds` have passed.
std::pair<int, int> start(double seconds);

// No function calls MPI after this one; requests that have not ended fail.
void stop();

// Ends MPI as its process managers expect; collective. False if it took longer than `seconds`.
bool finalize(double seconds);

// Operations that need a rank of the job fail after `grace` seconds, with this reason.
void departed(int rank, double grace, const std::string& why);

// A communicator of some ranks of the job; all of them must call this, with the same tag.
Group create(const std::vector<int>& ranks, int tag, double seconds);

// `background`: the engine's thread tests the operation. Buffers must live until the operation
// ends, and for ever if it fails. Parts and buffers are in bytes.
Posted all_reduce(const Group&, const void* send, void* receive, mpi::Count count, int element,
                  int reduction, bool background);
Posted reduce(const Group&, const void* send, void* receive, mpi::Count count, int element,
              int reduction, int root, bool background);
Posted reduce_scatter(const Group&, const void* send, void* receive, mpi::Count count, int element,
                      int reduction, bool background);
Posted broadcast(const Group&, void* buffer, mpi::Count bytes, int root, bool background);
Posted all_gather(const Group&, const void* send, mpi::Count bytes, void* receive, Parts parts,
                  bool background);
Posted gather(const Group&, const void* send, mpi::Count bytes, void* receive, Parts parts,
              int root, bool background);
Posted scatter(const Group&, const void* send, Parts parts, void* receive, mpi::Count bytes,
               int root, bool background);
Posted all_to_all(const Group&, const void* send, Parts sent, void* receive, Parts received,
                  bool background);
Posted barrier(const Group&, bool background);
Posted send(const Group&, const void* buffer, mpi::Count bytes, int peer, int tag, bool background);
Posted receive(const Group&, void* buffer, mpi::Count bytes, int peer, int tag,
               bool background);  // -1: any peer

}  // namespace flambeau::distributed
