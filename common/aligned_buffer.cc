#include "common/aligned_buffer.h"

#include <cstring>

namespace anchorage {

AlignedBuffer::AlignedBuffer(size_t size) {
  if (size == 0) return;
  const size_t rounded = (size + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(kBufferAlignment, rounded)));
  if (data_ == nullptr) return;
  std::memset(data_.get(), 0, rounded);
  size_ = size;
}

}  // namespace anchorage
