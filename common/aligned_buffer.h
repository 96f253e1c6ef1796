// Bytes on the heap, aligned to a cache line, with a size that was decided once.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

namespace anchorage {

inline constexpr size_t kBufferAlignment = 64;

// Move-only. Zeroed, so that padding is the same bytes on every run.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // Throws nothing; `data()` is null when the system has no memory.
  explicit AlignedBuffer(size_t size);

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }
  std::span<std::byte> span() { return {data_.get(), size_}; }
  std::span<const std::byte> span() const { return {data_.get(), size_}; }

  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data_.get());
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_.get());
  }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte[], Free> data_;
  size_t size_ = 0;
};

}  // namespace anchorage
