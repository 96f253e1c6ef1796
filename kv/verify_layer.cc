#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "common/status.h"
#include "common/status_macros.h"
#include "kernels/anchor_code.h"
#include "kernels/types.h"
#include "kv/layer_cache.h"
#include "kv/layouts/compact.h"
#include "kv/layouts/slot_index.h"
#include "kv/tensor_span.h"

namespace anchorage::kv {
namespace {

bool IsFinite(kernels::Bf16 value) { return (value.bits & 0x7f80u) != 0x7f80u; }
bool IsScale(kernels::Bf16 value) { return IsFinite(value) && kernels::ToFloat(value) >= 0; }
bool IsScale(float value) { return std::isfinite(value) && value >= 0; }

// One region under examination.
class Verifier {
 public:
  Verifier(const LayerPlan& plan, std::span<const std::byte> region)
      : plan_(plan), region_(region) {}

  absl::Status Dense() const {
    RETURN_IF_ERROR(AllFinite("k"));
    return AllFinite("v");
  }

  absl::Status Retained() const {
    RETURN_IF_ERROR(Ascending<uint32_t>("retained_pos", plan_.num_retained, plan_.seq_len));
    RETURN_IF_ERROR(AllFinite("retained_k"));
    return AllFinite("retained_v");
  }

  absl::Status Compact() const {
    RETURN_IF_ERROR(PairOrder("pair_order_k"));
    RETURN_IF_ERROR(Gains("key_gain_k"));
    for (const Side side : kSides) {
      RETURN_IF_ERROR(AnchorExponents(Name(side, "anchor_exponent_k", "anchor_exponent_v")));
      RETURN_IF_ERROR(FiniteLevels(Name(side, "proj_level_k", "proj_level_v")));
      RETURN_IF_ERROR(AllScales<kernels::Bf16>(Name(side, "scale_k", "scale_v")));
      const auto idx = Tensor<uint8_t>(Name(side, "idx_k", "idx_v"));
      RETURN_IF_ERROR(Indices(side, [&](int64_t head, int64_t position) {
        return CompactIndex(plan_, idx, head, position);
      }));
      RETURN_IF_ERROR(Slots(side));
      if (plan_.Find(NamesOf(side, Stage::kFine).mask) == nullptr) continue;
      RETURN_IF_ERROR(AllScales<kernels::Bf16>(NamesOf(side, Stage::kFine).scale));
      RETURN_IF_ERROR(FineSlots(side));
    }
    return absl::OkStatus();
  }

  absl::Status Paper() const {
    RETURN_IF_ERROR(
        Ascending<int64_t>("anchor_pos", plan_.num_anchors - plan_.window_len, plan_.prefix_len()));
    RETURN_IF_ERROR(TokenPositions());
    for (const Side side : kSides) {
      RETURN_IF_ERROR(AllFinite(Name(side, "anchor_k", "anchor_v")));
      RETURN_IF_ERROR(AllFinite(Name(side, "gamma_k", "gamma_v")));
      RETURN_IF_ERROR(AllScales<float>(Name(side, "scale_k", "scale_v")));
      const auto idx = Tensor<uint16_t>(Name(side, "idx_k", "idx_v"));
      RETURN_IF_ERROR(Indices(side, [&](int64_t head, int64_t position) {
        return idx[head * plan_.prefix_len() + position];
      }));
      RETURN_IF_ERROR(Slots(side));
    }
    return SlotPositions();
  }

 private:
  static const char* Name(Side side, const char* key_name, const char* value_name) {
    return side == Side::kKey ? key_name : value_name;
  }

  template <typename T>
  std::span<const T> Tensor(const char* name) const {
    return TensorSpan<const T>(plan_, region_, name);
  }

  // The prefix positions whose row is an anchor, in the order of the anchors.
  std::vector<int64_t> AnchorPositions(int64_t head) const {
    if (plan_.layout == Layout::kPaper) {
      const auto selected = static_cast<size_t>(plan_.num_anchors - plan_.window_len);
      const auto all = Tensor<int64_t>("anchor_pos");
      const auto of_head = all.subspan(static_cast<size_t>(head) * selected, selected);
      return {of_head.begin(), of_head.end()};
    }
    std::vector<int64_t> pins(static_cast<size_t>(plan_.num_pins));
    std::iota(pins.begin(), pins.end(), 0);
    return pins;
  }

  absl::Status AllFinite(const char* name) const {
    const std::span<const kernels::Bf16> tensor = Tensor<kernels::Bf16>(name);
    unsigned bad = 0;  // without a branch, so that it runs as fast as memory
    for (const kernels::Bf16 value : tensor) bad |= IsFinite(value) ? 0u : 1u;
    if (bad == 0) return absl::OkStatus();
    for (size_t i = 0; i < tensor.size(); ++i) {
      if (!IsFinite(tensor[i])) return DataLoss("%s: NaN or Inf at element %d", name, i);
    }
    return absl::OkStatus();
  }

  template <typename T>
  absl::Status AllScales(const char* name) const {
    const std::span<const T> tensor = Tensor<T>(name);
    for (size_t i = 0; i < tensor.size(); ++i) {
      if (!IsScale(tensor[i])) return DataLoss("%s: no finite scale >= 0 at element %d", name, i);
    }
    return absl::OkStatus();
  }

  absl::Status AnchorExponents(const char* name) const {
    const std::span<const int8_t> exponents = Tensor<int8_t>(name);
    for (size_t i = 0; i < exponents.size(); ++i) {
      if (exponents[i] >= kernels::kLeastAnchorExponent &&
          exponents[i] <= kernels::kMostAnchorExponent) {
        continue;
      }
      return DataLoss("%s: an exponent of %d at element %d", name, exponents[i], i);
    }
    return absl::OkStatus();
  }

  absl::Status FiniteLevels(const char* name) const {
    const std::span<const float> levels = Tensor<float>(name);
    for (size_t i = 0; i < levels.size(); ++i) {
      if (!std::isfinite(levels[i])) return DataLoss("%s: NaN or Inf at element %d", name, i);
    }
    return absl::OkStatus();
  }

  // Anchors: strictly ascending and inside the prefix.
  // Tensor `name` [H, per_head] has positions of [0, end), strictly ascending in each head.
  template <typename Position>
  absl::Status Ascending(const char* name, int64_t per_head, int64_t end) const {
    const std::span<const Position> positions = Tensor<Position>(name);
    for (int64_t head = 0; head < plan_.num_kv_heads; ++head) {
      int64_t last = -1;
      for (int64_t i = 0; i < per_head; ++i) {
        const int64_t position = positions[head * per_head + i];
        if (position <= last || position >= end) {
          return DataLoss("%s: head %d has position %d after %d, of %d", name, head, position, last,
                          end);
        }
        last = position;
      }
    }
    return absl::OkStatus();
  }

  // Below k, and an anchor points at itself.
  template <typename IndexOf>
  absl::Status Indices(Side side, const IndexOf& index_of) const {
    const char* name = Name(side, "idx_k", "idx_v");
    for (int64_t head = 0; head < plan_.num_kv_heads; ++head) {
      for (int64_t position = 0; position < plan_.prefix_len(); ++position) {
        const int64_t index = index_of(head, position);
        if (index >= plan_.num_anchors) {
          return DataLoss("%s: head %d, position %d points at anchor %d of %d", name, head,
                          position, index, plan_.num_anchors);
        }
      }
      int64_t anchor = 0;
      for (const int64_t position : AnchorPositions(head)) {
        if (index_of(head, position) != anchor) {
          return DataLoss("%s: head %d, anchor %d does not point at itself", name, head, anchor);
        }
        ++anchor;
      }
    }
    return absl::OkStatus();
  }

  // A permutation of the pairs in each head.
  absl::Status PairOrder(const char* name) const {
    const std::span<const uint8_t> order = Tensor<uint8_t>(name);
    const auto pairs = static_cast<size_t>(plan_.head_dim / 2);
    for (size_t at = 0; at < order.size(); at += pairs) {
      std::vector<bool> seen(pairs);
      for (const uint8_t pair : order.subspan(at, pairs)) {
        if (pair >= pairs || seen[pair]) {
          return DataLoss("%s: head %d has pair %d of %d where it does not belong", name,
                          at / pairs, int{pair}, pairs);
        }
        seen[pair] = true;
      }
    }
    return absl::OkStatus();
  }

  absl::Status Gains(const char* name) const {
    for (const float gain : Tensor<float>(name)) {
      if (!IsScale(gain)) return DataLoss("%s: a gain of %g", name, gain);
    }
    return absl::OkStatus();
  }

  absl::Status NothingBehindPrefix(const char* name, std::span<const uint64_t> words) const {
    const int64_t used = plan_.prefix_len() % 64;
    if (used == 0) return absl::OkStatus();
    for (int64_t head = 0; head < plan_.num_kv_heads; ++head) {
      if (words[(head + 1) * plan_.num_words() - 1] >> used != 0) {
        return DataLoss("%s: head %d has bits behind position %d", name, head,
                        plan_.prefix_len() - 1);
      }
    }
    return absl::OkStatus();
  }

  // Running counts and offsets agree with the mask and the plan.
  absl::Status Counts(Side side, Stage stage) const {
    const StageNames& names = NamesOf(side, stage);
    const SlotIndex slots = MapSlots(plan_, region_, side, stage);
    RETURN_IF_ERROR(NothingBehindPrefix(names.mask, slots.mask));
    int64_t total = 0;
    for (int64_t head = 0; head < plan_.num_kv_heads; ++head) {
      if (int64_t{slots.offset[head]} != total) {
        return DataLoss("%s: head %d begins at slot %d, its mask says %d", names.offset, head,
                        slots.offset[head], total);
      }
      int64_t in_head = 0;
      for (int64_t word = 0; word < plan_.num_words(); ++word) {
        const int64_t at = head * plan_.num_words() + word;
        if (int64_t{slots.prefix[at]} != in_head) {
          return DataLoss("%s: head %d, position %d counts %d slots, the mask has %d", names.prefix,
                          head, 64 * word, slots.prefix[at], in_head);
        }
        in_head += std::popcount(slots.mask[at]);
      }
      total += in_head;
    }
    const int64_t planned = NumSlots(plan_, side, stage);
    if (total != planned || int64_t{slots.offset[plan_.num_kv_heads]} != planned) {
      return DataLoss("%s: %d slots and an end of %d where the plan has %d", names.mask, total,
                      slots.offset[plan_.num_kv_heads], planned);
    }
    return absl::OkStatus();
  }

  // The counts, and anchors have no slot.
  absl::Status Slots(Side side) const {
    RETURN_IF_ERROR(Counts(side, Stage::kCoarse));
    const SlotIndex slots = MapSlots(plan_, region_, side);
    for (int64_t head = 0; head < plan_.num_kv_heads; ++head) {
      for (const int64_t position : AnchorPositions(head)) {
        if (slots.SlotOf(head, position) >= 0) {
          return DataLoss("%s: head %d has a slot for the anchor at position %d",
                          Name(side, "mask_k", "mask_v"), head, position);
        }
      }
    }
    return absl::OkStatus();
  }

  // The counts, and only what has a first code has a second one.
  absl::Status FineSlots(Side side) const {
    RETURN_IF_ERROR(Counts(side, Stage::kFine));
    const SlotIndex coarse = MapSlots(plan_, region_, side);
    const SlotIndex fine = MapSlots(plan_, region_, side, Stage::kFine);
    for (size_t word = 0; word < fine.mask.size(); ++word) {
      if ((fine.mask[word] & ~coarse.mask[word]) != 0) {
        return DataLoss("%s: word %d has a fine slot where the mask has none",
                        NamesOf(side, Stage::kFine).mask, word);
      }
    }
    return absl::OkStatus();
  }

  // Paper layout: token_pos is the identity, as nothing is ever left out.
  absl::Status TokenPositions() const {
    const std::span<const int32_t> positions = Tensor<int32_t>("token_pos");
    for (size_t i = 0; i < positions.size(); ++i) {
      if (positions[i] != static_cast<int64_t>(i)) {
        return DataLoss("token_pos: position %d is called %d", i, positions[i]);
      }
    }
    return absl::OkStatus();
  }

  // Paper layout: slot_pos_v is the low byte of the position of each slot.
  absl::Status SlotPositions() const {
    const std::span<const uint8_t> low_bytes = Tensor<uint8_t>("slot_pos_v");
    const SlotIndex slots = MapSlots(plan_, region_, Side::kValue);
    for (int64_t head = 0; head < plan_.num_kv_heads; ++head) {
      for (int64_t position = 0; position < plan_.prefix_len(); ++position) {
        const int64_t slot = slots.SlotOf(head, position);
        if (slot >= 0 && low_bytes[slot] != (position & 255)) {
          return DataLoss("slot_pos_v: slot %d says %d for position %d", slot, low_bytes[slot],
                          position);
        }
      }
    }
    return absl::OkStatus();
  }

  const LayerPlan& plan_;
  std::span<const std::byte> region_;
};

}  // namespace

absl::Status VerifyLayer(const LayerPlan& plan, std::span<const std::byte> region) {
  if (static_cast<int64_t>(region.size()) != plan.region_bytes) {
    return DataLoss("a region of %d bytes where the plan has %d", region.size(), plan.region_bytes);
  }
  if (reinterpret_cast<uintptr_t>(region.data()) % kTensorAlignment != 0) {
    return Invalid("a region that does not begin on %d bytes", kTensorAlignment);
  }
  const Verifier verifier(plan, region);
  switch (plan.layout) {
    case Layout::kDense:
      return verifier.Dense();
    case Layout::kCompact:
      return verifier.Compact();
    case Layout::kPaper:
      return verifier.Paper();
    case Layout::kSnapKv:
    case Layout::kRecent:
      return verifier.Retained();
  }
  return Internal("unknown layout");
}

}  // namespace anchorage::kv
