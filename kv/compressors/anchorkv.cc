// One layer's end, in five steps:
//   1. make anchors: the first positions' and the window's rows, and others that are fitted to the
//      prefix (fit_anchors.h); the paper's are rows that the window pays attention to (eq. 14)
//   2. assign every position to its nearest anchor, K and V apart (eqs. 1, 2)
//   3. ask what a residual would be worth at each position (eq. 6), from what was stored, and
//      spread that over the neighbourhood (pool_utilities.h)
//   4. give the planned slots to the most useful positions of all heads, and the fine ones to the
//      most useful of those
//   5. code the residuals of those positions (eq. 10), with twice the bits in fine slots; the one
//      code of a key has its bits where they count (kernels/key_code.h)
// Residuals are always taken against the rounded gamma and anchor, so that coding repairs the
// rounding too. Nothing of size S x D or W x S is built beside the region. Every value depends on
// the layer alone, so the bytes are the same for any number of threads.
#include "kv/compressors/anchorkv.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "common/mutex.h"
#include "common/status_macros.h"
#include "kernels/anchor.h"
#include "kv/compressors/check_layer.h"
#include "kv/compressors/fit_anchors.h"
#include "kv/compressors/fit_key_code.h"
#include "kv/compressors/none.h"
#include "kv/compressors/pool_utilities.h"
#include "kv/compressors/select_anchors.h"
#include "kv/compressors/select_slots.h"
#include "kv/kernel_status.h"
#include "kv/layer_cache.h"
#include "kv/layouts/anchor_row.h"
#include "kv/layouts/layout_writer.h"
#include "kv/layouts/slot_index.h"

namespace anchorage::kv {
namespace {

// Utilities are computed for a sixteenth of the prefix at a time, so that what the kernel takes and
// gives (28 bytes a position) never exists for all of it.
constexpr int64_t kUtilityBlocks = 16;
constexpr int64_t kEncodeRun = 512;  // positions that one task codes

// What there is beside the region: scalars, at most 18 H (P + 16) bytes, of which steps 1 and 2 use
// the room of the utilities before these exist; the anchors as a decoder has them, 4 H k D; and the
// rows that anchors are fitted to.
class Scratch {
 public:
  static int64_t Bytes(const LayerPlan& plan) {
    const int64_t positions = plan.num_kv_heads * plan.prefix_len();
    const int64_t block = plan.num_kv_heads * BlockLen(plan);
    return positions * 4 * kFloat + block * (6 * kFloat + 2 * kIndex) +
           2 * AnchorNumbers(plan) * kBf16 +
           NumFitRows(plan) * (kFloat + kIndex + plan.head_dim * kBf16);
  }

  static int64_t BlockLen(const LayerPlan& plan) {
    return (plan.prefix_len() + kUtilityBlocks - 1) / kUtilityBlocks;
  }

  Scratch(const LayerPlan& plan, std::byte* bytes) {
    const int64_t positions = plan.num_kv_heads * plan.prefix_len();
    const int64_t block = plan.num_kv_heads * BlockLen(plan);
    auto* floats = reinterpret_cast<float*>(bytes);
    for (std::span<float>& utility : utilities_) utility = Take(floats, positions);
    for (std::span<float>& energy : energies_) energy = Take(floats, positions);
    for (BlockSide& side : block_) {
      side.gamma = Take(floats, block);
      side.utility = Take(floats, block);
      side.energy = Take(floats, block);
    }
    fit_.proj = Take(floats, NumFitRows(plan));
    auto* indices = reinterpret_cast<uint16_t*>(floats);
    for (BlockSide& side : block_) side.idx = Take(indices, block);
    fit_.idx = Take(indices, NumFitRows(plan));
    auto* numbers = reinterpret_cast<kernels::Bf16*>(indices);
    for (std::span<kernels::Bf16>& side : anchors_) side = Take(numbers, AnchorNumbers(plan));
    fit_.rows = Take(numbers, NumFitRows(plan) * plan.head_dim);
  }

  // What one side has in one block of positions, packed [H, positions of the block].
  struct BlockSide {
    std::span<uint16_t> idx;
    std::span<float> gamma;
    std::span<float> utility;
    std::span<float> energy;
  };

  std::span<float> scores() { return utilities_[0]; }  // [H, P], step 1
  std::span<float> projections(int64_t count) { return utilities_[0].first(count); }  // step 2
  std::span<uint16_t> indices(int64_t count) {                                        // step 2
    return {reinterpret_cast<uint16_t*>(utilities_[1].data()), static_cast<size_t>(count)};
  }
  std::span<float> utilities(Side side) { return utilities_[static_cast<int>(side)]; }  // [H, P]
  std::span<float> energies(Side side) { return energies_[static_cast<int>(side)]; }    // [H, P]
  std::span<kernels::Bf16> anchors(Side side) {
    return anchors_[static_cast<int>(side)];
  }  // [H, k, D]
  BlockSide& block(Side side) { return block_[static_cast<int>(side)]; }
  const FitRoom& fit() const { return fit_; }

 private:
  static int64_t AnchorNumbers(const LayerPlan& plan) {
    return plan.num_kv_heads * plan.num_anchors * plan.head_dim;
  }

  static constexpr int64_t kFloat = sizeof(float);
  static constexpr int64_t kIndex = sizeof(uint16_t);
  static constexpr int64_t kBf16 = sizeof(kernels::Bf16);

  template <typename T>
  static std::span<T> Take(T*& next, int64_t count) {
    std::span<T> taken(next, static_cast<size_t>(count));
    next += count;
    return taken;
  }

  std::span<float> utilities_[2];
  std::span<float> energies_[2];
  BlockSide block_[2];
  std::span<kernels::Bf16> anchors_[2];
  FitRoom fit_;
};

// The compression of one layer: what the five steps share.
class LayerEnd {
 public:
  LayerEnd(const LayerKv& layer, const kernels::ObservedRowsView& observed, const LayerPlan& plan,
           const PlanOptions& options, kernels::CodePacking packing, std::span<std::byte> region,
           std::byte* workspace, kernels::Stream& stream)
      : layer_(layer),
        observed_(observed),
        plan_(plan),
        options_(options),
        region_(region),
        scratch_(plan, workspace),
        writer_(MakeLayoutWriter(plan, region, layer.rope, packing)),
        stream_(stream) {}

  absl::Status Run() {
    positions_.resize(static_cast<size_t>(plan_.num_kv_heads));
    if (plan_.layout == Layout::kPaper) {
      RETURN_IF_ERROR(SelectAnchorRows());
    } else {
      RETURN_IF_ERROR(MakeAnchors());
    }
    for (const Side side : kSides) RETURN_IF_ERROR(Assign(side));
    RETURN_IF_ERROR(FindUtilities());
    GiveSlots();
    FitKeyCodes();
    return EncodeResiduals();
  }

 private:
  // ---- Step 1 ----

  absl::Status SelectAnchorRows() {
    const std::span<float> scores = scratch_.scores();
    RETURN_IF_ERROR(
        Kernel(kernels::ScorePrefix(layer_.kv, observed_, layer_.rope, Window(),
                                    static_cast<int>(options_.pool_width), scores.data(), stream_),
               "scoring"));
    const int64_t prefix = plan_.prefix_len();
    stream_.ParallelFor(plan_.num_kv_heads, [&](int64_t head, int) {
      positions_[head] = SelectAnchors(
          plan_, layer_.layer, head, options_.seed,
          scores.subspan(static_cast<size_t>(head * prefix), static_cast<size_t>(prefix)));
      writer_->StorePositions(head, positions_[head]);
      for (const Side side : kSides) {
        CopyAnchorRows(side, head);
        StoreAnchors(side, head);
      }
    });
    return absl::OkStatus();
  }

  absl::Status MakeAnchors() {
    for (int64_t head = 0; head < plan_.num_kv_heads; ++head) {
      positions_[head].resize(static_cast<size_t>(plan_.num_pins));
      std::iota(positions_[head].begin(), positions_[head].end(), 0);
      for (const Side side : kSides) {
        CopyAnchorRows(side, head);
        RETURN_IF_ERROR(Kernel(
            FitAnchors(plan_, Row(side, head, 0), Anchors(side, head), scratch_.fit(), stream_),
            "fitting anchors"));
        StoreAnchors(side, head);
      }
    }
    return absl::OkStatus();
  }

  // Those that are rows: of the head's anchor positions first, of the window last.
  void CopyAnchorRows(Side side, int64_t head) {
    const int64_t dim = plan_.head_dim;
    const std::span<kernels::Bf16> anchors = Anchors(side, head);
    auto out = anchors.begin();
    for (const uint32_t position : positions_[head]) {
      out = std::copy_n(Row(side, head, position), dim, out);
    }
    std::copy_n(Row(side, head, plan_.prefix_len()), plan_.window_len * dim,
                anchors.end() - plan_.window_len * dim);
  }

  void StoreAnchors(Side side, int64_t head) {
    writer_->StoreAnchors(side, head, Anchors(side, head));
  }

  std::span<kernels::Bf16> Anchors(Side side, int64_t head) {
    return {AnchorRow(plan_, scratch_.anchors(side), head, 0),
            static_cast<size_t>(plan_.num_anchors * plan_.head_dim)};
  }

  // ---- Step 2 ----

  absl::Status Assign(Side side) {
    const int64_t prefix = plan_.prefix_len();
    const std::span<float> proj = scratch_.projections(prefix);
    const std::span<uint16_t> idx = scratch_.indices(prefix);
    for (int64_t head = 0; head < plan_.num_kv_heads; ++head) {
      RETURN_IF_ERROR(Kernel(
          kernels::AssignAnchors(
              prefix, Dim(), static_cast<int>(plan_.num_anchors), Row(side, head, 0),
              AnchorRow(plan_, scratch_.anchors(side), head, 0), idx.data(), proj.data(), stream_),
          "assigning anchors"));
      for (int64_t position = 0; position < prefix; ++position) {
        if (!std::isfinite(proj[position])) return TooLarge(position);
      }
      writer_->StoreAssignments(side, head, idx, proj);
    }
    return absl::OkStatus();
  }

  // ---- Step 3 ----

  absl::Status FindUtilities() {
    const int64_t block_len = Scratch::BlockLen(plan_);
    for (int64_t first = 0; first < plan_.prefix_len(); first += block_len) {
      const int64_t count = std::min(block_len, plan_.prefix_len() - first);
      RETURN_IF_ERROR(FindBlockUtilities(first, count));
    }
    stream_.ParallelFor(2 * plan_.num_kv_heads, [&](int64_t task, int) {
      const Side side = kSides[task % 2];
      const int64_t head = task / 2;
      const auto prefix_len = static_cast<size_t>(plan_.prefix_len());
      const auto of_head = [&](std::span<float> all) {
        return all.subspan(head * prefix_len, prefix_len);
      };
      const std::span<float> utilities = of_head(scratch_.utilities(side));
      if (plan_.layout == Layout::kCompact) {
        PoolUtilities(utilities, of_head(scratch_.energies(side)), options_.utility_pool_width);
      }
      for (const uint32_t position : positions_[head]) utilities[position] = kNoSlot;
    });
    return absl::OkStatus();
  }

  // The kernel sees positions first .. first + count - 1 as the prefix of a shorter layer.
  absl::Status FindBlockUtilities(int64_t first, int64_t count) {
    stream_.ParallelFor(2 * plan_.num_kv_heads, [&](int64_t task, int) {
      const Side side = kSides[task % 2];
      const int64_t head = task / 2;
      Scratch::BlockSide& block = scratch_.block(side);
      const auto from = static_cast<size_t>(head * count);
      writer_->LoadAssignments(side, head, first, block.idx.subspan(from, count),
                               block.gamma.subspan(from, count));
    });
    kernels::ActiveKvView kv = layer_.kv;
    kv.seq_len = count + plan_.window_len;
    kv.k += first * plan_.head_dim;
    kv.v += first * plan_.head_dim;
    kernels::RopeView rope = layer_.rope;
    rope.cos += first * (plan_.head_dim / 2);
    rope.sin += first * (plan_.head_dim / 2);
    rope.num_positions -= first;
    RETURN_IF_ERROR(Kernel(kernels::ResidualUtilities(
                               kv, observed_, rope, Window(), static_cast<int>(plan_.num_anchors),
                               KernelSide(Side::kKey), KernelSide(Side::kValue),
                               BlockWorth(Side::kKey), BlockWorth(Side::kValue), stream_),
                           "ranking residuals"));
    for (const Side side : kSides) {
      for (int64_t head = 0; head < plan_.num_kv_heads; ++head) {
        const int64_t to = head * plan_.prefix_len() + first;
        std::copy_n(scratch_.block(side).utility.data() + head * count, count,
                    scratch_.utilities(side).data() + to);
        std::copy_n(scratch_.block(side).energy.data() + head * count, count,
                    scratch_.energies(side).data() + to);
      }
    }
    return absl::OkStatus();
  }

  kernels::AnchorSide KernelSide(Side side) {
    const Scratch::BlockSide& block = scratch_.block(side);
    return {scratch_.anchors(side).data(), block.idx.data(), block.gamma.data()};
  }

  kernels::ResidualWorth BlockWorth(Side side) {
    const Scratch::BlockSide& block = scratch_.block(side);
    return {block.utility.data(), block.energy.data()};
  }

  // ---- Step 4 ----

  void GiveSlots() {
    stream_.ParallelFor(4, [&](int64_t task, int) {
      const Side side = kSides[task % 2];
      const Stage stage = task < 2 ? Stage::kCoarse : Stage::kFine;
      const int64_t slots = NumSlots(plan_, side, stage);
      if (stage == Stage::kFine && slots == 0) return;
      SelectSlots(scratch_.utilities(side), plan_.num_kv_heads, plan_.prefix_len(), slots,
                  MapSlots(plan_, region_, side, stage));
    });
  }

  // ---- Step 5 ----

  void FitKeyCodes() {
    if (plan_.layout != Layout::kCompact) return;
    stream_.ParallelFor(plan_.num_kv_heads, [&](int64_t head, int) {
      std::vector<double> energies(static_cast<size_t>(plan_.head_dim / 2));
      std::array<float, kMaxHeadDim> residual;
      for (int64_t first = 0; first < plan_.prefix_len(); first += kEncodeRun) {
        const Assignments run = LoadRun(Side::kKey, head, first);
        for (int64_t i = 0; i < run.count; ++i) {
          ResidualOf(Side::kKey, head, first + i, run.idx[i], run.gamma[i], residual.data());
          AddPairEnergies({residual.data(), static_cast<size_t>(plan_.head_dim)}, energies);
        }
      }
      const auto num_heads = static_cast<int>(plan_.num_kv_heads);
      const FittedKeyCode code =
          FitKeyCode(energies, plan_.prefix_len(), QueryEnergies(observed_, num_heads, head));
      writer_->StoreKeyCode(head, code.view());
    });
  }

  absl::Status EncodeResiduals() {
    const int64_t runs = (plan_.prefix_len() + kEncodeRun - 1) / kEncodeRun;
    stream_.ParallelFor(2 * plan_.num_kv_heads * runs, [&](int64_t task, int) {
      EncodeRun(kSides[task % 2], task / 2 / runs, task / 2 % runs * kEncodeRun);
    });
    MutexLock lock(overflow_mutex_);
    if (overflow_position_ == kNowhere) return absl::OkStatus();
    return TooLarge(overflow_position_);
  }

  // Of up to kEncodeRun positions of a head, as a decoder has them.
  struct Assignments {
    int64_t count = 0;
    std::array<uint16_t, kEncodeRun> idx;
    std::array<float, kEncodeRun> gamma;
  };

  Assignments LoadRun(Side side, int64_t head, int64_t first) const {
    Assignments run;
    run.count = std::min(kEncodeRun, plan_.prefix_len() - first);
    const auto count = static_cast<size_t>(run.count);
    writer_->LoadAssignments(side, head, first, std::span(run.idx).first(count),
                             std::span(run.gamma).first(count));
    return run;
  }

  // x - gamma anchor, before RoPE.
  void ResidualOf(Side side, int64_t head, int64_t position, uint16_t idx, float gamma,
                  float* residual) {
    const kernels::Bf16* x = Row(side, head, position);
    const kernels::Bf16* anchor = AnchorRow(plan_, scratch_.anchors(side), head, idx);
    for (int64_t d = 0; d < plan_.head_dim; ++d) {
      residual[d] = kernels::ToFloat(x[d]) - gamma * kernels::ToFloat(anchor[d]);
    }
  }

  // The slots of up to kEncodeRun positions of a head.
  void EncodeRun(Side side, int64_t head, int64_t first) {
    const Assignments run = LoadRun(side, head, first);
    const std::span<const std::byte> region(region_);
    const SlotIndex slots = MapSlots(plan_, region, side);
    const SlotIndex fine_slots = MapSlots(plan_, region, side, Stage::kFine);
    for (int64_t i = 0; i < run.count; ++i) {
      const int64_t position = first + i;
      const int64_t slot = slots.SlotOf(head, position);
      if (slot < 0) continue;
      std::array<float, kMaxHeadDim> residual;
      ResidualOf(side, head, position, run.idx[i], run.gamma[i], residual.data());
      if (!writer_->StoreResidual(side, head, slot, fine_slots.SlotOf(head, position), position,
                                  residual.data())) {
        MutexLock lock(overflow_mutex_);
        overflow_position_ = std::min(overflow_position_, position);
      }
    }
  }

  // ---- Shared ----

  absl::Status TooLarge(int64_t position) const {
    return Invalid("layer %d, position %d: K or V is too large to compress", layer_.layer,
                   position);
  }

  int Dim() const { return static_cast<int>(plan_.head_dim); }
  int Window() const { return static_cast<int>(plan_.window_len); }

  const kernels::Bf16* Row(Side side, int64_t head, int64_t position) const {
    const kernels::Bf16* data = side == Side::kKey ? layer_.kv.k : layer_.kv.v;
    return data + (head * layer_.kv.capacity + position) * plan_.head_dim;
  }

  absl::Status Kernel(kernels::Status status, const char* operation) const {
    if (status == kernels::Status::kOk) return absl::OkStatus();
    return FromKernel(status, absl::StrFormat("layer %d, %s", layer_.layer, operation));
  }

  static constexpr int64_t kNowhere = std::numeric_limits<int64_t>::max();

  const LayerKv& layer_;
  const kernels::ObservedRowsView& observed_;
  const LayerPlan& plan_;
  const PlanOptions& options_;
  std::span<std::byte> region_;
  Scratch scratch_;
  std::unique_ptr<LayoutWriter> writer_;
  kernels::Stream& stream_;
  std::vector<std::vector<uint32_t>> positions_;  // [H] those whose rows are anchors, ascending

  Mutex overflow_mutex_;
  int64_t overflow_position_ GUARDED_BY(overflow_mutex_) = kNowhere;
};

}  // namespace

int64_t AnchorKvCompressor::WorkspaceBytes(const LayerPlan& plan, int num_q_heads,
                                           int num_threads) const {
  return plan.layout == Layout::kDense ? 0 : Scratch::Bytes(plan);
}

absl::StatusOr<CompressedLayer> AnchorKvCompressor::Compress(
    const LayerKv& layer, const kernels::ObservedRowsView& observed, const LayerPlan& plan,
    kernels::CodePacking packing, Workspace& workspace, kernels::Stream& stream) const {
  if (plan.layout == Layout::kDense) {
    return NoneCompressor().Compress(layer, observed, plan, packing, workspace, stream);
  }
  RETURN_IF_ERROR(CheckLayer(layer, plan, stream));
  ASSIGN_OR_RETURN(CompressedLayer result, NewCompressedLayer(layer.layer, plan));
  ASSIGN_OR_RETURN(std::byte* const bytes, workspace.Reserve(Scratch::Bytes(plan)));
  RETURN_IF_ERROR(
      LayerEnd(layer, observed, result.plan, options_, packing, result.region.span(), bytes, stream)
          .Run());
  result.checksum = Checksum(result.region.span());
  return result;
}

}  // namespace anchorage::kv
