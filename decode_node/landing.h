// The data plane's receiver: judges each announced layer before a byte may land, and has it
// verified afterwards.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>

#include "common/mutex.h"
#include "decode_node/core/engine.h"
#include "decode_node/metrics.h"
#include "decode_node/verifier.h"
#include "transport/data/data_plane.h"
#include "worker/layer_header.h"
#include "worker/transfer_metrics.h"

namespace anchorage::decode {

// Called on the data plane's thread; verifies on the verifier's. All references must outlive it.
class LandingReceiver : public transport::TransferReceiver {
 public:
  // What a header must name to be from a node that belongs here.
  struct Expected {
    uint64_t model_fingerprint = 0;
    uint64_t plan_fingerprint = 0;
  };

  LandingReceiver(Engine& engine, const Expected& expected, Verifier& verifier,
                  worker::TransferMetrics& transfers, Metrics& metrics)
      : engine_(engine),
        expected_(expected),
        verifier_(verifier),
        transfers_(transfers),
        metrics_(metrics) {}

  absl::StatusOr<transport::Landing> OnAnnounce(std::span<const std::byte> header,
                                                size_t length) override;
  void OnQuiet(uint64_t token, absl::Status landed, Reply reply) override;

 private:
  absl::Status CheckHeader(const worker::LayerHeader& header, size_t length);
  absl::StatusOr<transport::Landing> Close(const worker::LayerHeader& header);
  void Verify(uint64_t token, const LandedLayer& layer, const Reply& reply);

  // Tokens of closing messages, which have no region, are told from the engine's by this bit.
  static constexpr uint64_t kClosingBit = uint64_t{1} << 63;

  Engine& engine_;
  const Expected expected_;
  Verifier& verifier_;
  worker::TransferMetrics& transfers_;
  Metrics& metrics_;
  uint64_t next_closing_ = 0;
  Mutex mutex_;
  std::unordered_map<uint64_t, int64_t> begin_ns_ GUARDED_BY(mutex_);  // by token
};

}  // namespace anchorage::decode
