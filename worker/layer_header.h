// The header that announces a layer (or closes an attempt) on the data plane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "kernels/residual.h"

namespace anchorage::worker {

struct LayerHeader {
  uint64_t sender_boot = 0;
  AttemptId attempt;
  uint64_t nonce = 0;  // from the grant
  uint64_t model_fingerprint = 0;
  uint64_t plan_fingerprint = 0;
  int64_t layer = 0;
  int64_t num_layers = 0;
  uint64_t length = 0;    // payload bytes
  uint64_t checksum = 0;  // XXH3-64 of them
  kernels::CodePacking packing = kernels::CodePacking::kLinear;
  bool closing = false;  // no payload: every layer has been verified, this is the first token
  int32_t first_token = 0;
};

std::string Serialize(const LayerHeader& header);

// InvalidArgument: not a header. FailedPrecondition: another wire version.
absl::StatusOr<LayerHeader> ParseLayerHeader(std::span<const std::byte> bytes);

}  // namespace anchorage::worker
