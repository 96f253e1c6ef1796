// The tensors of a GGUF file: what they are and where their bytes lie in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "files/tensor_type.h"

namespace anchorage::files {

class GgufCursor;

struct TensorView {
  std::string name;
  TensorType type;
  std::vector<int64_t> dims;        // 1 to 4, each >= 1; dims[0] is contiguous in memory
  std::span<const std::byte> data;  // exactly the blocks of the elements; aligned to the alignment
  uint64_t file_offset;             // of data[0] from the start of the file

  int64_t num_elements() const;
};

// Reads `num_tensors` infos of `file` at the cursor, in file order. The tensors' bytes begin at the
// next multiple of `alignment` behind them. InvalidArgument: dims, type, size or place make no
// sense, two of them overlap, or a name appears twice.
absl::StatusOr<std::vector<TensorView>> ReadTensors(GgufCursor& cursor,
                                                    std::span<const std::byte> file,
                                                    uint64_t num_tensors, uint32_t alignment);

}  // namespace anchorage::files
