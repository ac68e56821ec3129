#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/operator_graph.h"
#include "taskgraph/plan/pipeline.h"

namespace pipesim {

inline constexpr std::int32_t kNoSegment = -1;    ///< not run again
inline constexpr std::int32_t kKeptSegment = -2;  ///< nor run again, and all that enters is kept too

/// A part of a layer that runs again by itself (Megatron-LM's --recompute-modules). What enters it is kept;
/// what is made inside, and what it hands on, is made again when backward needs it.
enum class RecomputeModule : std::uint8_t {
  CoreAttention,       ///< attention without its projections (Korthikanti et al. 2023, section 5)
  Mlp,                 ///< a feed-forward part without experts, with the norm before it
  Moe,                 ///< router, experts and what brings tokens to them; the norm before it is kept
  MoeActivation,       ///< what stands between the two products of experts
  LayerNorm,           ///< a norm that is no part of one product's kernel: before experts, before latents
  LatentUpProjection,  ///< what makes queries, keys and values of latents (DeepSeek-AI 2024, section 2.1.1)
  SharedExperts        ///< the feed-forward part that all tokens take beside experts
};
constexpr std::size_t kRecomputeModules = 7;
/// "core_attn", "mlp", …: Megatron-LM's names.
std::string_view name_of(RecomputeModule module);

/// Which operators run forward a second time before backward, so that their results need not be kept in
/// between (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost").
///
/// Operators are recomputed in segments. Tensors that enter a segment or a pipeline stage are kept. Tensors
/// made inside a segment are freed after forward, and made again before backward reads them.
struct Recompute {
  enum class Kind : std::uint8_t {
    None,
    Modules,  ///< those of `modules` in every layer, each a segment of its own
    /// Every layer, but for results of attention, of every second product, the first one among them, and of
    /// exchanges of experts (torchtitan's selective activation checkpointing by operator).
    Operators,
    /// Every layer is a segment, see layers_of(); where the model has no layers, every one of ⌈√n⌉ runs of
    /// operators. A pipeline's stages cut segments. Without a pipeline the last run is kept, because its
    /// backward comes at once.
    Full,
    First,   ///< the first `count` layers of every stage alone ("block" of Megatron-LM, in each model chunk)
    Groups,  ///< runs of `count` layers of a stage are segments ("uniform" of Megatron-LM)
    Every,   ///< every `count`-th layer of a stage alone (torchtitan's selective checkpointing by layer)
    Stage,   ///< every stage of a pipeline is a segment (Huang et al. 2019, section 2.3)
    Listed   ///< as `segment_of` says
  };
  Kind kind = Kind::None;
  std::vector<std::int32_t> segment_of = {};  ///< of Listed: by operator, from 0, or kNoSegment
  std::uint32_t modules = 0;                  ///< of Modules: a bit for each RecomputeModule
  std::int64_t count = 0;                     ///< of First, Groups and Every: layers

  /// "selective" of Megatron-LM: core attention.
  static Recompute of_modules(std::initializer_list<RecomputeModule> modules);
  static Recompute selective() { return of_modules({RecomputeModule::CoreAttention}); }
  [[nodiscard]] bool any() const { return kind != Kind::None; }
  [[nodiscard]] bool has(RecomputeModule module) const {
    return kind == Kind::Modules && (modules >> static_cast<unsigned>(module) & 1U) != 0;
  }
  /// Whether whole layers run again, all or some.
  [[nodiscard]] bool of_layers() const {
    return kind == Kind::Full || kind == Kind::First || kind == Kind::Groups || kind == Kind::Every;
  }
  bool operator==(const Recompute&) const = default;
  /// "none", "selective", "core_attn+mlp", "op", "full", "full:4" (First), "uniform:4" (Groups), "every:2",
  /// "stage". A list has no text.
  [[nodiscard]] std::string str() const;
};

/// The text, or "of 120 operators" of a list.
std::string in_words(const Recompute& recompute);
/// What texts may look like, for messages: "none, selective, full, …".
std::string recompute_forms();
/// Reads what str() writes. InputError with what is allowed.
Recompute parse_recompute(std::string_view text);

/// The layers of the model: its repeats (layers of a transformer, steps of a recurrent network), if they have
/// four operators or more and hold most of the model. Where operators do not say what they repeat
/// (Operator::repeat), layers of a transformer are found by repeated_blocks(). By operator, the number of its
/// layer from 0, or kNoLayer for what stands between layers; all are kNoLayer where the model has no such
/// repeats.
std::vector<std::int32_t> layers_of(const OperatorGraph& graph);
inline constexpr std::int32_t kNoLayer = -1;

/// The segment of every operator, from 0, or kNoSegment, or kKeptSegment.
std::vector<std::int32_t> recompute_segments(const OperatorGraph& graph, const Recompute& recompute,
                                             const std::optional<Pipeline>& pipeline);

/// Why this recomputation is impossible: nothing to recompute, or a segment over several stages. The pipeline
/// must be legal.
std::optional<std::string> illegal(const OperatorGraph& graph, const Recompute& recompute,
                                   const std::optional<Pipeline>& pipeline);

/// Which operators are recomputed and who reads their results. Does not depend on the strategy.
class Recomputation {
 public:
  Recomputation(const OperatorGraph& graph, const Recompute& recompute,
                const std::optional<Pipeline>& pipeline);

  [[nodiscard]] bool any() const { return !segments_.empty(); }
  /// Whether the operator runs again: it is in a segment, and backward, or another operator that runs again,
  /// reads what it makes or saves.
  [[nodiscard]] bool again(OperatorId op) const { return again_[op.index()]; }
  /// Whether this use, after forward, reads a recomputed tensor and not a kept one.
  [[nodiscard]] bool reads_again(UseRef use) const;
  /// Whether the run of forward before backward writes what backward reads of this use in another type
  /// (TensorUse::saved_as). Where the tensor alone is made again, for backward, that reads the tensor, as
  /// Megatron-LM's set_save_original_input() has it.
  [[nodiscard]] bool keeps_copy(UseRef use) const;
  /// Whether the operator runs again and then reads the copy that its first run left of this use
  /// (TensorUse::runs_again_from_saved), so that the tensor need not stay.
  [[nodiscard]] bool runs_again_from_copy(UseRef use) const;

  /// Whether the operator's results stay until its own backward, though nothing reads them: selective
  /// checkpoints of PyTorch store what their policy chooses (torch.utils.checkpoint, MUST_SAVE).
  [[nodiscard]] bool stores_results(OperatorId op) const { return !stores_.empty() && stores_[op.index()]; }

  struct Segment {
    std::vector<OperatorId> operators;  ///< that run again, ascending
    /// The last operator whose backward reads what they made. The backward of operators behind it neither
    /// reads that nor waits for these.
    OperatorId last;
  };
  /// The segments in which some operator runs again, in the order in which backward reaches them: by `last`,
  /// descending.
  [[nodiscard]] std::span<const Segment> segments() const { return segments_; }

 private:
  [[nodiscard]] bool is_kept_for(OperatorId producer, OperatorId reader) const;
  void find_segments(const OperatorGraph& graph);

  const OperatorGraph* graph_;
  std::vector<std::int32_t> segment_of_, stage_of_;  // by operator
  std::vector<bool> backward_;                       // by operator: it has one
  std::vector<bool> again_;                          // by operator
  std::vector<bool> stores_;                         // by operator; empty: none does
  std::vector<Segment> segments_;
};

}  // namespace pipesim
