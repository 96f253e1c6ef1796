#include "files/gguf_tensors.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "files/gguf_cursor.h"

namespace anchorage::files {
namespace {

constexpr uint32_t kMaxDims = 4;

absl::StatusOr<int64_t> CheckedElements(const TensorView& tensor) {
  int64_t elements = 1;
  for (const int64_t dim : tensor.dims) {
    if (__builtin_mul_overflow(elements, dim, &elements)) {
      return Invalid("tensor %s: the product of its dims overflows", tensor.name);
    }
  }
  return elements;
}

absl::StatusOr<uint64_t> TensorBytes(const TensorView& tensor, const TensorTypeInfo& info) {
  ASSIGN_OR_RETURN(const int64_t elements, CheckedElements(tensor));
  if (tensor.dims[0] % info.block_elements != 0) {
    return Invalid("tensor %s: rows of %d elements are not whole blocks of %d (%s)", tensor.name,
                   tensor.dims[0], info.block_elements, info.name);
  }
  int64_t bytes;
  if (__builtin_mul_overflow(elements / info.block_elements, info.block_bytes, &bytes)) {
    return Invalid("tensor %s: its size in bytes overflows", tensor.name);
  }
  return static_cast<uint64_t>(bytes);
}

// A tensor info as stored; `offset` counts from the start of the tensors' bytes.
struct TensorInfo {
  TensorView view;
  uint64_t offset;
  uint64_t size;
};

absl::StatusOr<TensorInfo> ReadTensorInfo(GgufCursor& cursor, uint32_t alignment) {
  TensorInfo info;
  ASSIGN_OR_RETURN(const std::string_view name, cursor.ReadName("a tensor name"));
  info.view.name = std::string(name);
  const uint64_t dims_at = cursor.offset();
  ASSIGN_OR_RETURN(const uint32_t num_dims, cursor.Read<uint32_t>("the number of dims"));
  if (num_dims == 0 || num_dims > kMaxDims) {
    return Invalid("offset %d: tensor %s has %d dims; 1 to %d are allowed", dims_at, name, num_dims,
                   kMaxDims);
  }
  for (uint32_t d = 0; d < num_dims; ++d) {
    ASSIGN_OR_RETURN(const int64_t dim, cursor.Read<int64_t>("a dim"));
    if (dim <= 0) return Invalid("offset %d: tensor %s: dim %d is %d", dims_at, name, d, dim);
    info.view.dims.push_back(dim);
  }
  const uint64_t type_at = cursor.offset();
  ASSIGN_OR_RETURN(const uint32_t type_id, cursor.Read<uint32_t>("a tensor type"));
  const std::optional<TensorTypeInfo> type = FindTensorType(type_id);
  if (!type) return Invalid("offset %d: tensor %s has unknown type %d", type_at, name, type_id);
  info.view.type = type->type;
  ASSIGN_OR_RETURN(info.offset, cursor.Read<uint64_t>("a tensor offset"));
  if (info.offset % alignment != 0) {
    return Invalid("tensor %s: offset %d is not a multiple of the alignment %d", name, info.offset,
                   alignment);
  }
  ASSIGN_OR_RETURN(info.size, TensorBytes(info.view, *type));
  return info;
}

// Gives each view its bytes. `data_begin` is where the tensors' bytes start in the file.
absl::Status PlaceTensors(std::span<TensorInfo> infos, std::span<const std::byte> file,
                          uint64_t data_begin) {
  const uint64_t data_size = file.size() - std::min<uint64_t>(data_begin, file.size());
  for (TensorInfo& info : infos) {
    if (info.offset > data_size || info.size > data_size - info.offset) {
      return Invalid("tensor %s: %d bytes at offset %d reach past the end of the file (%d bytes)",
                     info.view.name, info.size, data_begin + info.offset, file.size());
    }
    info.view.file_offset = data_begin + info.offset;
    info.view.data = file.subspan(info.view.file_offset, info.size);
  }
  std::vector<const TensorInfo*> by_offset;
  by_offset.reserve(infos.size());
  for (const TensorInfo& info : infos) by_offset.push_back(&info);
  std::sort(by_offset.begin(), by_offset.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < by_offset.size(); ++i) {
    if (by_offset[i - 1]->offset + by_offset[i - 1]->size > by_offset[i]->offset) {
      return Invalid("tensors %s and %s overlap at offset %d", by_offset[i - 1]->view.name,
                     by_offset[i]->view.name, by_offset[i]->view.file_offset);
    }
  }
  return absl::OkStatus();
}

}  // namespace

int64_t TensorView::num_elements() const {
  int64_t elements = 1;
  for (const int64_t dim : dims) elements *= dim;
  return elements;
}

absl::StatusOr<std::vector<TensorView>> ReadTensors(GgufCursor& cursor,
                                                    std::span<const std::byte> file,
                                                    uint64_t num_tensors, uint32_t alignment) {
  std::vector<TensorInfo> infos;
  for (uint64_t i = 0; i < num_tensors; ++i) {
    ASSIGN_OR_RETURN(TensorInfo info, ReadTensorInfo(cursor, alignment));
    infos.push_back(std::move(info));
  }
  const uint64_t data_begin = (cursor.offset() + alignment - 1) / alignment * alignment;
  RETURN_IF_ERROR(PlaceTensors(infos, file, data_begin));
  absl::flat_hash_set<absl::string_view> names;
  for (const TensorInfo& info : infos) {
    if (!names.insert(info.view.name).second) {
      return Invalid("tensor %s appears twice", info.view.name);
    }
  }
  std::vector<TensorView> tensors;
  tensors.reserve(infos.size());
  for (TensorInfo& info : infos) tensors.push_back(std::move(info.view));
  return tensors;
}

}  // namespace anchorage::files
