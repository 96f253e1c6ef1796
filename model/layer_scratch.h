// The activations of one layer, for the rows that pass through it together.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/aligned_buffer.h"
#include "model/config.h"

namespace anchorage::model {

// Allocated once, used by one caller at a time, layer after layer.
struct LayerScratch {
  // For up to `max_rows` rows. ResourceExhausted: no memory.
  static absl::StatusOr<LayerScratch> Create(const ModelConfig& config, int64_t max_rows);
  static int64_t BytesFor(const ModelConfig& config, int64_t max_rows);

  int64_t bytes() const { return static_cast<int64_t>(buffer.size()); }

  int64_t max_rows = 0;
  float* normed = nullptr;     // [max_rows, d]
  float* q = nullptr;          // [max_rows, Hq D]
  float* k = nullptr;          // [max_rows, H D]
  float* v = nullptr;          // [max_rows, H D]
  float* attention = nullptr;  // [max_rows, Hq D]
  float* gate = nullptr;       // [max_rows, ff]
  float* up = nullptr;         // [max_rows, ff]
  AlignedBuffer buffer;        // what the pointers point into
};

}  // namespace anchorage::model
