// A call is a list of tasks: one per sequence, KV head and split of kSplitTokens positions. Splits
// start at fixed positions and are merged in ascending order, so the bits of a row depend neither
// on the batch nor on the threads. Tasks run in waves that fit the scratch; the caller merges each
// wave's states into `out` before the next.
#include "kernels/decode_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/anchor_code.h"
#include "kernels/attention_state.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/key_code.h"
#include "kernels/residual.h"

namespace anchorage::kernels {
namespace {

constexpr int kMaxHeadDim = 1024;
constexpr int64_t kSplitTokens = 2048;
constexpr int kTasksPerThread = 16;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t PrefixLen(const SequenceCache& cache) {
  return cache.prefix == SequenceCache::Prefix::kDense ? cache.dense.seq_len
                                                       : cache.compact.seq_len;
}
int64_t PrefixSplits(const SequenceCache& cache) { return CeilDiv(PrefixLen(cache), kSplitTokens); }
int64_t NumSplits(const SequenceCache& cache) {
  return PrefixSplits(cache) + CeilDiv(cache.num_generated, kSplitTokens);
}

// Hands out consecutive aligned arrays; from a null base it only counts their bytes.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {
    used_ = -reinterpret_cast<intptr_t>(base) & (kAlignment - 1);
  }

  template <typename T>
  T* Take(int64_t count) {
    T* array = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += CeilDiv(count * static_cast<int64_t>(sizeof(T)), kAlignment) * kAlignment;
    return array;
  }

  int64_t used() const { return used_; }

 private:
  static constexpr int64_t kAlignment = 64;
  std::byte* base_;
  int64_t used_;
};

struct Task {
  int64_t sequence = 0;
  int64_t split = 0;
  int head = 0;
};

// Sizes that the shape fixes.
struct Geometry {
  explicit Geometry(const DecodeAttentionShape& shape)
      : head_dim(shape.head_dim),
        num_heads(shape.num_kv_heads),
        group(shape.num_q_heads / shape.num_kv_heads),
        row_blocks((group + kRowBlock - 1) / kRowBlock),
        half(PaddedHalf(shape.head_dim)),
        quarter(PaddedQuarter(shape.head_dim)) {}

  int padded_rows() const { return row_blocks * kRowBlock; }

  int head_dim;
  int num_heads;
  int group;
  int row_blocks;
  int half;
  int quarter;
};

// What a task leaves behind: the state of each query row of its head. [padded_rows] each.
struct TaskState {
  TaskState(const Geometry& g, Carver& carver)
      : max(carver.Take<float>(g.padded_rows())),
        sum(carver.Take<float>(g.padded_rows())),
        out(carver.Take<float>(int64_t{g.padded_rows()} * g.head_dim)) {}

  float* max;
  float* sum;
  float* out;
};

// One thread's working memory.
struct WorkerScratch {
  WorkerScratch(const Geometry& g, int num_anchors, Carver& carver)
      : q(carver.Take<float>(int64_t{g.padded_rows()} * g.head_dim)),
        q_tile(carver.Take<float>(kRowBlock * 2 * g.half)),
        q_rotated(carver.Take<float>(int64_t{g.padded_rows()} * 4 * g.quarter)),
        q_spread(carver.Take<float>(int64_t{g.padded_rows()} * 4 * g.quarter)),
        residual(carver.Take<float>(int64_t{g.padded_rows()} * 4 * g.quarter)),
        bins(carver.Take<float>(int64_t{g.padded_rows()} * num_anchors)),
        key_anchors(carver.Take<float>(int64_t{num_anchors} * 2 * g.half)),
        stored_keys(carver.Take<Bf16>(int64_t{num_anchors} * g.head_dim)),
        value_anchors(carver.Take<Bf16>(int64_t{num_anchors} * g.head_dim)),
        key_inverse_norms(carver.Take<float>(num_anchors)),
        value_inverse_norms(carver.Take<float>(num_anchors)),
        cos(carver.Take<float>(kDecodeTile * g.half)),
        sin(carver.Take<float>(kDecodeTile * g.half)) {}

  float* q;
  float* q_tile;
  float* q_rotated;
  float* q_spread;
  float* residual;
  float* bins;
  float* key_anchors;
  Bf16* stored_keys;
  Bf16* value_anchors;
  float* key_inverse_norms;
  float* value_inverse_norms;
  float* cos;
  float* sin;
};

struct Scratch {
  Scratch(const Geometry& g, int max_anchors, int num_threads, std::byte* base)
      : carver(base),
        capacity(kTasksPerThread * num_threads),
        tasks(carver.Take<Task>(capacity)),
        running_max(carver.Take<float>(g.num_heads * g.group)),
        running_sum(carver.Take<float>(g.num_heads * g.group)) {
    state_bytes = BytesOf([&](Carver& c) { TaskState(g, c); });
    states = carver.Take<std::byte>(capacity * state_bytes);
    worker_bytes = BytesOf([&](Carver& c) { WorkerScratch(g, max_anchors, c); });
    workers = carver.Take<std::byte>(num_threads * worker_bytes);
  }

  template <typename Fill>
  static int64_t BytesOf(const Fill& fill) {
    Carver counter(nullptr);
    fill(counter);
    return counter.used();
  }

  TaskState State(const Geometry& g, int64_t task) const {
    Carver c(states + task * state_bytes);
    return TaskState(g, c);
  }
  WorkerScratch Worker(const Geometry& g, int num_anchors, int worker) const {
    Carver c(workers + worker * worker_bytes);
    return WorkerScratch(g, num_anchors, c);
  }

  Carver carver;
  int64_t capacity;
  Task* tasks;
  float* running_max;  // [num_q_heads] of the sequence being merged; its out row is `out`
  float* running_sum;
  int64_t state_bytes = 0;
  std::byte* states = nullptr;
  int64_t worker_bytes = 0;
  std::byte* workers = nullptr;
};

bool StageComplete(const ResidualStage& stage) {
  return stage.mask != nullptr && stage.prefix != nullptr && stage.offset != nullptr;
}

bool SideComplete(const CompactSide& side) {
  return side.anchor != nullptr && side.anchor_exponent != nullptr && side.idx != nullptr &&
         side.proj != nullptr && side.proj_level != nullptr && StageComplete(side.coarse) &&
         (side.fine.mask == nullptr || StageComplete(side.fine));
}

bool CacheFits(const DecodeAttentionShape& shape, const SequenceCache& cache,
               const RopeView& rope) {
  if (cache.num_generated < 0 || (cache.num_generated > 0 && cache.blocks == nullptr)) return false;
  if (PrefixLen(cache) < 0 || PrefixLen(cache) + cache.num_generated == 0) return false;
  if (cache.prefix == SequenceCache::Prefix::kDense) {
    return cache.dense.seq_len == 0 || (cache.dense.k != nullptr && cache.dense.v != nullptr);
  }
  const CompactCacheView& compact = cache.compact;
  return compact.num_kv_heads == shape.num_kv_heads && compact.head_dim == shape.head_dim &&
         compact.window_len > 0 && compact.prefix_len() > 0 &&
         compact.num_anchors >= compact.window_len && compact.num_anchors <= kMaxCompactAnchors &&
         compact.num_pins >= 0 && compact.num_pins <= compact.num_anchors - compact.window_len &&
         compact.num_pins <= compact.prefix_len() && compact.pair_order != nullptr &&
         compact.key_gain != nullptr && SideComplete(compact.key) && SideComplete(compact.value) &&
         rope.head_dim == shape.head_dim && rope.num_positions >= compact.seq_len;
}

// One task from its query rows to its state.
class SplitAttention {
 public:
  SplitAttention(const Geometry& geometry, const DecodeKernels& kernels, const RopeView& rope,
                 const WorkerScratch& scratch, const TaskState& state)
      : g_(geometry), kernels_(kernels), rope_(rope), scratch_(scratch), state_(state) {}

  // q [group, head_dim].
  void Run(const SequenceCache& cache, const Task& task, const float* q) const {
    LoadQueries(q);
    const int64_t prefix_splits = PrefixSplits(cache);
    if (task.split >= prefix_splits) {
      const int64_t first = (task.split - prefix_splits) * kSplitTokens;
      Generated(cache, task.head, first, std::min(cache.num_generated, first + kSplitTokens));
      return;
    }
    const int64_t first = task.split * kSplitTokens;
    const int64_t last = std::min(PrefixLen(cache), first + kSplitTokens);
    if (cache.prefix == SequenceCache::Prefix::kDense) {
      Dense(cache.dense, task.head, first, last);
    } else {
      Compact(cache.compact, task.head, first, last);
    }
  }

 private:
  void LoadQueries(const float* q) const {
    const int64_t floats = int64_t{g_.group} * g_.head_dim;
    const int64_t padded = int64_t{g_.padded_rows()} * g_.head_dim;
    const float scale = 1.0f / std::sqrt(static_cast<float>(g_.head_dim));
    for (int64_t i = 0; i < floats; ++i) scratch_.q[i] = q[i] * scale;
    std::fill(scratch_.q + floats, scratch_.q + padded, 0.0f);
    std::fill(state_.max, state_.max + g_.padded_rows(), -HUGE_VALF);
    std::fill(state_.sum, state_.sum + g_.padded_rows(), 0.0f);
    std::fill(state_.out, state_.out + padded, 0.0f);
  }

  RowBlock Block(int block, int num_anchors) const {
    const int64_t first = int64_t{block} * kRowBlock;
    RowBlock rows;
    rows.num_rows = std::min(kRowBlock, g_.group - block * kRowBlock);
    rows.head_dim = g_.head_dim;
    rows.q = scratch_.q + first * g_.head_dim;
    rows.max = state_.max + first;
    rows.sum = state_.sum + first;
    rows.out = state_.out + first * g_.head_dim;
    rows.q_tile = scratch_.q_tile;
    rows.q_rotated = scratch_.q_rotated + first * 4 * g_.quarter;
    rows.q_spread = scratch_.q_spread + first * 4 * g_.quarter;
    rows.bins = scratch_.bins + first * num_anchors;
    rows.residual = scratch_.residual + first * 4 * g_.quarter;
    return rows;
  }

  void DenseTile(int count, const Bf16* k, const Bf16* v) const {
    for (int block = 0; block < g_.row_blocks; ++block) {
      kernels_.dense_tile(count, k, v, Block(block, 0));
    }
  }

  void Dense(const DenseCacheView& dense, int head, int64_t first, int64_t last) const {
    for (int64_t t = first; t < last; t += kDecodeTile) {
      const int64_t at = (head * dense.seq_len + t) * g_.head_dim;
      const int count = static_cast<int>(std::min<int64_t>(kDecodeTile, last - t));
      DenseTile(count, dense.k + at, dense.v + at);
    }
  }

  void Generated(const SequenceCache& cache, int head, int64_t first, int64_t last) const {
    const int64_t tokens = int64_t{kGeneratedBlockTokens} * g_.head_dim;
    for (int64_t t = first; t < last; t += kGeneratedBlockTokens) {
      const Bf16* block = cache.blocks[t / kGeneratedBlockTokens];
      const int count = static_cast<int>(std::min<int64_t>(kGeneratedBlockTokens, last - t));
      DenseTile(count, block + head * tokens, block + (g_.num_heads + head) * tokens);
    }
  }

  void Compact(const CompactCacheView& cache, int head, int64_t first, int64_t last) const {
    const CompactHead shared = PrepareHead(cache, head);
    CompactTile tile;
    for (int64_t t = first; t < last; t += kDecodeTile) {
      LoadTile(cache, head, t, last, tile);
      for (int block = 0; block < g_.row_blocks; ++block) {
        kernels_.compact_tile(shared, tile, Block(block, cache.num_anchors));
      }
    }
    for (int block = 0; block < g_.row_blocks; ++block) {
      const RowBlock rows = Block(block, cache.num_anchors);
      kernels_.collect_bins(shared, rows);
      for (int r = 0; r < rows.num_rows; ++r) AddResidual(rows, r);
    }
  }

  CompactHead PrepareHead(const CompactCacheView& cache, int head) const {
    const int k = cache.num_anchors;
    LoadAnchors(cache.key, head, k, scratch_.stored_keys, scratch_.key_inverse_norms);
    LoadAnchors(cache.value, head, k, scratch_.value_anchors, scratch_.value_inverse_norms);
    kernels_.load_halves(k, g_.head_dim, scratch_.stored_keys, scratch_.key_anchors);
    LoadOffsets(rope_.cos, scratch_.cos);
    LoadOffsets(rope_.sin, scratch_.sin);
    const int64_t rows = g_.padded_rows();
    std::fill(scratch_.bins, scratch_.bins + rows * k, 0.0f);
    std::fill(scratch_.residual, scratch_.residual + rows * 4 * g_.quarter, 0.0f);
    std::fill(scratch_.q_tile, scratch_.q_tile + kRowBlock * 2 * g_.half, 0.0f);
    const int64_t pairs = g_.head_dim / 2;
    const KeyCode code = {g_.head_dim, cache.pair_order + head * pairs, cache.key_gain + 2 * head};
    for (int r = 0; r < g_.group; ++r) TurnQuery(code, r);

    CompactHead shared;
    shared.num_anchors = k;
    shared.key_anchors = scratch_.key_anchors;
    shared.value_anchors = scratch_.value_anchors;
    shared.cos = scratch_.cos;
    shared.sin = scratch_.sin;
    return shared;
  }

  // The anchors of a head, and 1 / |anchor| of each.
  void LoadAnchors(const CompactSide& side, int head, int count, Bf16* anchors,
                   float* inverse_norms) const {
    const int64_t first = int64_t{head} * count;
    DecodeAnchors(count, g_.head_dim, side.anchor + first * g_.head_dim,
                  side.anchor_exponent + first, anchors);
    for (int a = 0; a < count; ++a) {
      inverse_norms[a] = InverseNorm(anchors + int64_t{a} * g_.head_dim, g_.head_dim);
    }
  }

  // The table's rows for the offsets inside a tile, padded.
  void LoadOffsets(const float* table, float* out) const {
    const int half = g_.head_dim / 2;
    const int64_t rows = std::min<int64_t>(kDecodeTile, rope_.num_positions);
    for (int64_t row = 0; row < rows; ++row, table += half, out += g_.half) {
      std::memcpy(out, table, static_cast<size_t>(half) * sizeof(float));
      std::fill(out + half, out + g_.half, 0.0f);
    }
  }

  // q_rotated[r] = U q and q_spread[r] = M T q.
  void TurnQuery(const KeyCode& code, int r) const {
    const float* q = scratch_.q + int64_t{r} * g_.head_dim;
    float turned[kMaxHeadDim];
    std::memcpy(turned, q, g_.head_dim * sizeof(float));
    RotateResidual(g_.head_dim, turned);
    StoreQuarters(turned, scratch_.q_rotated + int64_t{r} * 4 * g_.quarter);
    SpreadQuery(code, q, turned);
    StoreQuarters(turned, scratch_.q_spread + int64_t{r} * 4 * g_.quarter);
  }

  void StoreQuarters(const float* x, float* out) const {
    const int quarter = g_.head_dim / 4;
    for (int plane = 0; plane < 4; ++plane, out += g_.quarter) {
      std::memcpy(out, x + plane * quarter, static_cast<size_t>(quarter) * sizeof(float));
      std::fill(out + quarter, out + g_.quarter, 0.0f);
    }
  }

  // out[r] += U^T residual[r].
  void AddResidual(const RowBlock& rows, int r) const {
    float sum[kMaxHeadDim];
    const int quarter = g_.head_dim / 4;
    const float* residual = rows.residual + r * 4 * g_.quarter;
    for (int plane = 0; plane < 4; ++plane, residual += g_.quarter) {
      std::memcpy(sum + plane * quarter, residual, static_cast<size_t>(quarter) * sizeof(float));
    }
    UnrotateResidual(g_.head_dim, sum);
    float* out = rows.out + r * g_.head_dim;
    for (int d = 0; d < g_.head_dim; ++d) out[d] += sum[d];
  }

  void LoadTile(const CompactCacheView& cache, int head, int64_t first, int64_t last,
                CompactTile& tile) const {
    tile.count = static_cast<int>(std::min<int64_t>(kDecodeTile, last - first));
    const int64_t rope_row = first * (g_.head_dim / 2);
    tile.cos = rope_.cos + rope_row;
    tile.sin = rope_.sin + rope_row;
    LoadLinks(cache, cache.key, head, first, scratch_.key_inverse_norms, tile.key_anchor,
              tile.key_gamma);
    LoadLinks(cache, cache.value, head, first, scratch_.value_inverse_norms, tile.value_anchor,
              tile.value_gamma);
    LoadResiduals(cache, cache.key, head, first, tile.key_residuals);
    LoadResiduals(cache, cache.value, head, first, tile.value_residuals);
    PlaceAnchors(cache, first, tile);
  }

  // Anchor indices and gammas of the tile's prefix positions.
  static void LoadLinks(const CompactCacheView& cache, const CompactSide& side, int head,
                        int64_t first, const float* inverse_norms, uint16_t* anchor, float* gamma) {
    const int64_t prefix = cache.prefix_len();
    const int count = static_cast<int>(std::clamp<int64_t>(prefix - first, 0, kDecodeTile));
    const int bits = IndexBits(cache.num_anchors);
    const uint8_t* idx = side.idx + head * IndexRowBytes(prefix, cache.num_anchors);
    const uint8_t* proj = side.proj + head * ProjectionRowBytes(prefix);
    const float* levels = side.proj_level + int64_t{head} * kNumProjectionLevels;
    for (int t = 0; t < count; ++t) {
      anchor[t] = LoadIndex(idx, bits, first + t);
      gamma[t] = CompactGamma(levels[LoadProjection(proj, first + t)], inverse_norms[anchor[t]]);
    }
  }

  void LoadResiduals(const CompactCacheView& cache, const CompactSide& side, int head,
                     int64_t first, ResidualRun (&runs)[kNumStages]) const {
    const bool in_prefix = first < cache.prefix_len();
    const int64_t word = head * cache.num_words() + first / kDecodeTile;
    runs[0] = in_prefix ? LoadRun(side.coarse, head, word) : ResidualRun{};
    runs[1] =
        in_prefix && side.fine.mask != nullptr ? LoadRun(side.fine, head, word) : ResidualRun{};
  }

  ResidualRun LoadRun(const ResidualStage& stage, int head, int64_t word) const {
    const int64_t slot = int64_t{stage.offset[head]} + stage.prefix[word];
    return {stage.mask[word], stage.codes + slot * (g_.head_dim / 4), stage.scale + slot};
  }

  // Exact positions: the pinned ones, and the window, which stands last among the anchors.
  static void PlaceAnchors(const CompactCacheView& cache, int64_t first, CompactTile& tile) {
    const auto place = [&](int64_t position, int64_t anchor) {
      const auto t = static_cast<int>(position - first);
      tile.key_anchor[t] = tile.value_anchor[t] = static_cast<uint16_t>(anchor);
      tile.key_gamma[t] = tile.value_gamma[t] = 1.0f;
    };
    const int64_t end = first + tile.count;
    for (int64_t t = first; t < std::min<int64_t>(end, cache.num_pins); ++t) place(t, t);
    for (int64_t t = std::max(first, cache.prefix_len()); t < end; ++t) {
      place(t, cache.num_anchors - (cache.seq_len - t));
    }
  }

  const Geometry& g_;
  const DecodeKernels& kernels_;
  const RopeView& rope_;
  const WorkerScratch& scratch_;
  const TaskState& state_;
};

// Walks the tasks of a call in the order in which their states are merged.
class TaskCursor {
 public:
  TaskCursor(int64_t count, const SequenceCache* sequences, int num_heads)
      : count_(count), sequences_(sequences), num_heads_(num_heads) {}

  // All heads of a split come before the next split: they read the same rows of the RoPE table.
  bool Next(Task& task) {
    if (at_.sequence == count_) return false;
    task = at_;
    if (++at_.head < num_heads_) return true;
    at_.head = 0;
    if (++at_.split < NumSplits(sequences_[at_.sequence])) return true;
    at_.split = 0;
    ++at_.sequence;
    return true;
  }

 private:
  int64_t count_;
  const SequenceCache* sequences_;
  int num_heads_;
  Task at_;
};

// Merges one task's state into the output rows of its head; the first split starts them and the
// last finishes them.
void MergeTask(const Geometry& g, const SequenceCache& cache, const Task& task,
               const TaskState& state, const Scratch& scratch, float* out) {
  for (int row = 0; row < g.group; ++row) {
    const int q_head = task.head * g.group + row;
    const AttentionState part{g.head_dim, state.max + row, state.sum + row,
                              state.out + int64_t{row} * g.head_dim};
    const AttentionState whole{g.head_dim, scratch.running_max + q_head,
                               scratch.running_sum + q_head, out + int64_t{q_head} * g.head_dim};
    if (task.split == 0) whole.Init();
    whole.Merge(part);
    if (task.split + 1 == NumSplits(cache)) whole.Normalize();
  }
}

bool ShapeFits(const DecodeAttentionShape& shape) {
  return shape.num_kv_heads > 0 && shape.num_q_heads > 0 &&
         shape.num_q_heads % shape.num_kv_heads == 0 && shape.head_dim > 0 &&
         shape.head_dim % 8 == 0;
}

int MaxAnchors(int64_t count, const SequenceCache* sequences) {
  int most = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (sequences[i].prefix == SequenceCache::Prefix::kCompact) {
      most = std::max(most, sequences[i].compact.num_anchors);
    }
  }
  return most;
}

}  // namespace

int64_t DecodeAttentionScratchBytes(const DecodeAttentionShape& shape, int max_anchors,
                                    int num_threads) {
  if (!ShapeFits(shape) || max_anchors < 0 || num_threads < 1) return 0;
  constexpr int64_t kSlackToAlign = 64;
  return Scratch(Geometry(shape), max_anchors, num_threads, nullptr).carver.used() + kSlackToAlign;
}

Status DecodeAttention(const DecodeAttentionShape& shape, int64_t count,
                       const SequenceCache* sequences, const float* q, const RopeView& rope,
                       float* out, std::byte* scratch_memory, Stream& stream) {
  if (!ShapeFits(shape) || count < 0) return Status::kInvalidShape;
  if (shape.head_dim > kMaxHeadDim) return Status::kUnsupported;
  for (int64_t i = 0; i < count; ++i) {
    if (!CacheFits(shape, sequences[i], rope)) return Status::kInvalidShape;
  }
  const DecodeKernels& kernels = *ActiveKernels().decode;
  const Geometry g(shape);
  const Scratch scratch(g, MaxAnchors(count, sequences), stream.num_threads(), scratch_memory);
  const int64_t row_floats = int64_t{shape.num_q_heads} * shape.head_dim;

  TaskCursor cursor(count, sequences, shape.num_kv_heads);
  while (true) {
    int64_t wave = 0;
    while (wave < scratch.capacity && cursor.Next(scratch.tasks[wave])) ++wave;
    if (wave == 0) return Status::kOk;
    stream.ParallelFor(wave, [&](int64_t i, int worker) {
      const Task& task = scratch.tasks[i];
      const SequenceCache& cache = sequences[task.sequence];
      const bool compact = cache.prefix == SequenceCache::Prefix::kCompact;
      const WorkerScratch memory =
          scratch.Worker(g, compact ? cache.compact.num_anchors : 0, worker);
      const TaskState state = scratch.State(g, i);
      const int64_t head = int64_t{task.head} * g.group * g.head_dim;
      SplitAttention(g, kernels, rope, memory, state)
          .Run(cache, task, q + task.sequence * row_floats + head);
    });
    for (int64_t i = 0; i < wave; ++i) {
      const Task& task = scratch.tasks[i];
      MergeTask(g, sequences[task.sequence], task, scratch.State(g, i), scratch,
                out + task.sequence * row_floats);
    }
  }
}

}  // namespace anchorage::kernels
