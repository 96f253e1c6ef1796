// Private to transport/data/: a data plane around a backend and the thread that runs it.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "common/mutex.h"
#include "transport/data/backend.h"
#include "transport/data/data_plane.h"

namespace anchorage::transport {

class ThreadedPlane final : public DataPlane {
 public:
  explicit ThreadedPlane(std::shared_ptr<DataBackend> backend);
  ~ThreadedPlane() override { Shutdown(); }

  const char* name() const override { return backend_->name(); }
  std::string listen_address() const override { return backend_->listen_address(); }
  std::string Describe() const override;
  SendId Send(const std::string& address, std::string header, std::span<const std::byte> payload,
              std::function<void(absl::Status)> done) override;
  void CancelSend(SendId id) override;
  void CloseLanding(uint64_t token) override;
  DataPlaneStats stats() const override { return backend_->counters().Read(); }
  void Shutdown() override;

 private:
  const std::shared_ptr<DataBackend> backend_;
  Mutex mutex_;
  SendId next_id_ GUARDED_BY(mutex_) = 1;
  std::thread thread_;
};

}  // namespace anchorage::transport
