#include "c10/core/fork_mutex.h"

#include <pthread.h>

#include <vector>

namespace flambeau::c10 {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<ForkMutex*> members;
};
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

void lock_all() {
  registry().mutex.lock();
  for (ForkMutex* m : registry().members) m->lock();
}
void unlock_all() {
  for (ForkMutex* m : registry().members) m->unlock();
  registry().mutex.unlock();
}

}  // namespace

ForkMutex::ForkMutex() {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  if (r.members.empty()) pthread_atfork(lock_all, unlock_all, unlock_all);
  r.members.push_back(this);
}

}  // namespace flambeau::c10
