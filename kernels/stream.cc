// Threads take indices of the current loop from one counter. A thread joins a loop only while it is
// open, under the mutex, and the caller closes it when the indices have run out; so the caller
// waits for the threads that joined and never for one that is still asleep.
//
// Between two loops a thread spins for some microseconds before it sleeps: a decode step is
// hundreds of short loops, and a wake-up costs as much as one of them.
#include "kernels/stream.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace anchorage::kernels {
namespace {

constexpr int kSpins = 400;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Which stream and worker the calling thread is running a task for.
thread_local const Stream* current_stream = nullptr;
thread_local int current_worker = 0;

}  // namespace

class Stream::Pool {
 public:
  Pool(const Stream* stream, int num_threads) : stream_(stream) {
    for (int worker = 1; worker < num_threads; ++worker) {
      threads_.emplace_back([this, worker] { Serve(worker); });
    }
  }

  ~Pool() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      generation_.fetch_add(1, std::memory_order_relaxed);
    }
    opened_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void Run(const Loop& loop) {
    bool wake;
    {
      std::lock_guard lock(mutex_);
      loop_ = loop;
      next_.store(0, std::memory_order_relaxed);
      open_ = true;
      generation_.fetch_add(1, std::memory_order_relaxed);
      wake = num_asleep_ > 0;
    }
    if (wake) opened_.notify_all();
    TakeIndices(loop, 0);

    std::unique_lock lock(mutex_);
    open_ = false;
    for (int spin = 0; num_joined_ > 0 && spin < kSpins; ++spin) {
      lock.unlock();
      Pause();
      lock.lock();
    }
    left_.wait(lock, [this] { return num_joined_ == 0; });
  }

 private:
  void Serve(int worker) {
    uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    while (true) {
      AwaitGeneration(lock, seen);
      if (stopping_) return;
      seen = generation_.load(std::memory_order_relaxed);
      if (!open_) continue;
      const Loop loop = loop_;
      ++num_joined_;
      lock.unlock();
      TakeIndices(loop, worker);
      lock.lock();
      if (--num_joined_ == 0) left_.notify_one();
    }
  }

  // Returns, with the mutex held, once a generation other than `seen` has begun.
  void AwaitGeneration(std::unique_lock<std::mutex>& lock, uint64_t seen) {
    const auto begun = [&] { return generation_.load(std::memory_order_relaxed) != seen; };
    if (begun()) return;
    lock.unlock();
    for (int spin = 0; !begun() && spin < kSpins; ++spin) Pause();
    lock.lock();
    ++num_asleep_;
    opened_.wait(lock, begun);
    --num_asleep_;
  }

  void TakeIndices(const Loop& loop, int worker) {
    const Stream* outer_stream = std::exchange(current_stream, stream_);
    const int outer_worker = std::exchange(current_worker, worker);
    int64_t i;
    while ((i = next_.fetch_add(1, std::memory_order_relaxed)) < loop.count) {
      loop.body(loop.context, i, worker);
    }
    current_stream = outer_stream;
    current_worker = outer_worker;
  }

  const Stream* stream_;
  std::mutex mutex_;
  std::condition_variable opened_;
  std::condition_variable left_;
  std::atomic<uint64_t> generation_{0};  // written under mutex_, spun on outside it
  std::atomic<int64_t> next_{0};
  Loop loop_;
  bool open_ = false;
  bool stopping_ = false;
  int num_joined_ = 0;
  int num_asleep_ = 0;
  std::vector<std::thread> threads_;
};

Stream::Stream(int num_threads) : num_threads_(std::max(1, num_threads)) {
  if (num_threads_ > 1) pool_ = std::make_unique<Pool>(this, num_threads_);
}

Stream::~Stream() = default;

void Stream::Run(const Loop& loop) {
  const bool nested = current_stream == this;
  if (pool_ != nullptr && !nested && loop.count > 1) {
    pool_->Run(loop);
    return;
  }
  const int worker = nested ? current_worker : 0;
  for (int64_t i = 0; i < loop.count; ++i) loop.body(loop.context, i, worker);
}

}  // namespace anchorage::kernels
