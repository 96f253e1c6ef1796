// Reads a layer's region as the decode kernels want it, and checks one that came from outside.
#pragma once

#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/decode_attention.h"
#include "kv/plan/plan.h"

namespace anchorage::kv {

// Points a cache view (without generated blocks) into a region laid out by `plan`. A layer of which
// positions were evicted is a dense one of num_retained rows: its keys are rotated already, so
// where they stood no longer matters. Generated tokens go on from position S all the same.
// InvalidArgument: the region's size disagrees, or the layout is kPaper (never served).
absl::StatusOr<kernels::SequenceCache> MapLayer(const LayerPlan& plan,
                                                std::span<const std::byte> region);

// XXH3-64.
uint64_t Checksum(std::span<const std::byte> bytes);

// Everything an index in the region may say, checked before a kernel follows it: anchor positions
// ascending and inside the prefix, retained positions ascending and below S, indices below k, mask
// bits that agree with prefix, offsets and slot counts, finite scales. DataLoss names the tensor
// and the position.
absl::Status VerifyLayer(const LayerPlan& plan, std::span<const std::byte> region);

}  // namespace anchorage::kv
