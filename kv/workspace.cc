#include "common/status.h"
#include "kv/compressor.h"

namespace anchorage::kv {

absl::StatusOr<std::byte*> Workspace::Reserve(int64_t bytes) {
  if (bytes <= this->bytes()) return buffer_.data();
  buffer_ = AlignedBuffer();  // never the old and the new one at once
  buffer_ = AlignedBuffer(static_cast<size_t>(bytes));
  if (buffer_.data() == nullptr) return Exhausted("no memory for a workspace of %d bytes", bytes);
  return buffer_.data();
}

}  // namespace anchorage::kv
