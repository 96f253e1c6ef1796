// Where kernels run. On the CPU a stream is a pool of threads and a call returns when its work is
// done; a device backend gives the same argument its own meaning.
#pragma once

#include <cstdint>
#include <memory>

namespace anchorage::kernels {

// A fixed set of threads that split loops. One caller at a time; a nested call runs inline.
class Stream {
 public:
  // `num_threads` >= 1 counts the caller: 1 starts none.
  explicit Stream(int num_threads);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  int num_threads() const { return num_threads_; }

  // Runs task(i, worker) once for each i in [0, count); worker in [0, num_threads). Which worker
  // runs which i is not fixed, so a task's result may depend on i alone (row invariance). The task
  // is not copied and must not throw. What it wrote is visible to the caller on return.
  template <typename Task>
  void ParallelFor(int64_t count, const Task& task) {
    Run({count, &task, [](const void* context, int64_t i, int worker) {
           (*static_cast<const Task*>(context))(i, worker);
         }});
  }

 private:
  class Pool;

  // A loop body without its type: no allocation, unlike std::function.
  struct Loop {
    int64_t count = 0;
    const void* context = nullptr;
    void (*body)(const void* context, int64_t i, int worker) = nullptr;
  };

  void Run(const Loop& loop);

  int num_threads_;
  std::unique_ptr<Pool> pool_;
};

}  // namespace anchorage::kernels
