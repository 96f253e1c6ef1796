#include <atomic>
#include <future>
#include <utility>
#include <vector>

#include "bench/link.h"
#include "common/aligned_buffer.h"
#include "common/status_macros.h"
#include "transport/data/data_plane.h"

namespace anchorage::bench {
namespace {

// Takes everything into a few regions, used in turn; the sender has no more in flight.
class SlotReceiver : public transport::TransferReceiver {
 public:
  SlotReceiver() {
    for (size_t i = 0; i < kLinkMaxAtOnce; ++i) slots_.emplace_back(kLinkMaxBytes);
  }
  absl::StatusOr<transport::Landing> OnAnnounce(std::span<const std::byte>,
                                                size_t length) override {
    const uint64_t token = next_++;
    return transport::Landing{slots_[token % kLinkMaxAtOnce].span().first(length), token};
  }
  void OnQuiet(uint64_t, absl::Status landed, Reply reply) override {
    if (landed.ok()) reply(absl::OkStatus());
  }
  std::span<const std::byte> last(size_t length) const {
    return slots_[(next_ - 1) % kLinkMaxAtOnce].span().first(length);
  }

 private:
  std::vector<AlignedBuffer> slots_;
  std::atomic<uint64_t> next_{0};
};

class PlaneLink : public Link {
 public:
  static absl::StatusOr<std::unique_ptr<Link>> Create(const std::string& kind) {
    auto link = std::make_unique<PlaneLink>();
    transport::DataPlaneOptions receiving;
    receiving.listen = "127.0.0.1:0";
    receiving.receiver = &link->receiver_;
    ASSIGN_OR_RETURN(link->to_, transport::MakeDataPlane(kind, receiving));
    transport::DataPlaneOptions sending;
    sending.interface_host = "127.0.0.1";
    ASSIGN_OR_RETURN(link->from_, transport::MakeDataPlane(kind, sending));
    return link;
  }

  absl::Status Carry(std::span<const std::byte> payload, size_t count) override {
    std::vector<std::promise<absl::Status>> results(count);
    for (std::promise<absl::Status>& result : results) {
      from_->Send(to_->listen_address(), std::string(kLinkHeaderBytes, 'h'), payload,
                  [&result](absl::Status status) { result.set_value(std::move(status)); });
    }
    absl::Status all;
    for (std::promise<absl::Status>& result : results) all.Update(result.get_future().get());
    return all;
  }

  std::span<const std::byte> arrived(size_t length) const override {
    return receiver_.last(length);
  }

  std::string Describe() const override { return from_->Describe(); }

 private:
  SlotReceiver receiver_;  // outlives the planes
  std::unique_ptr<transport::DataPlane> to_;
  std::unique_ptr<transport::DataPlane> from_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Link>> MakePlaneLink(const std::string& kind) {
  return PlaneLink::Create(kind);
}

}  // namespace anchorage::bench
