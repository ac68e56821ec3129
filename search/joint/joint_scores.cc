#include "search/joint/joint_scores.h"

#include <string>

namespace pipesim {
namespace {

// Two streams of 64 bits with the mixing of splitmix64, each with constants of its own.
class PlanMixer {
 public:
  void add(std::int64_t value) {
    const auto word = static_cast<std::uint64_t>(value);
    digest_[0] = mixed(digest_[0] ^ word, 0xBF58476D1CE4E5B9ULL) + 0x9E3779B97F4A7C15ULL;
    digest_[1] = mixed(digest_[1] + word, 0x94D049BB133111EBULL) ^ 0xD1B54A32D192ED03ULL;
  }
  template <class List>
  void add_size(const List& list) {
    add(static_cast<std::int64_t>(list.size()));
  }
  void add(const std::string& text) {
    add_size(text);
    for (const char c : text) add(static_cast<std::int64_t>(c));
  }
  void add(const std::vector<DeviceId>& devices) {
    add_size(devices);
    for (const DeviceId d : devices) add(d.value);
  }
  [[nodiscard]] const PlanDigest& digest() const { return digest_; }

 private:
  static std::uint64_t mixed(std::uint64_t h, std::uint64_t factor) {
    h = (h ^ (h >> 30)) * factor;
    h = (h ^ (h >> 27)) * 0xFF51AFD7ED558CCDULL;
    return h ^ (h >> 31);
  }

  PlanDigest digest_{1, 2};
};

}  // namespace

PlanDigest digest_of(const JointPlan& plan) {
  PlanMixer mixer;
  mixer.add(plan.microbatches);
  mixer.add(static_cast<std::int64_t>(plan.recompute.kind));
  mixer.add(static_cast<std::int64_t>(plan.recompute.modules));
  mixer.add(plan.recompute.count);
  mixer.add_size(plan.recompute.segment_of);
  for (const std::int32_t segment : plan.recompute.segment_of) mixer.add(segment);
  mixer.add(plan.shared_text());
  mixer.add(plan.sequence.parts);
  mixer.add(plan.sequence.token_groups);
  mixer.add(plan.has_pipeline() ? plan.pipeline.schedule : "");  // else the schedule decides nothing
  mixer.add(plan.pipeline.messages ? static_cast<std::int64_t>(*plan.pipeline.messages) : -1);
  mixer.add_size(plan.pipeline.stage_of);
  for (const std::int32_t stage : plan.pipeline.stage_of) mixer.add(stage);
  mixer.add_size(plan.meshes);
  for (const StageMesh& mesh : plan.meshes) {
    mixer.add(mesh.tensor);
    mixer.add(mesh.devices);
  }
  mixer.add_size(plan.own);
  for (const auto& [op, config] : plan.own) {
    mixer.add(op);
    mixer.add(config.replicas);
    mixer.add(config.ring ? 1 : 0);
    mixer.add_size(config.degrees);
    for (const std::int32_t degree : config.degrees) mixer.add(degree);
    mixer.add(config.devices);
  }
  return mixer.digest();
}

std::optional<JointScore> JointScores::find(const PlanDigest& plan) const {
  const std::scoped_lock lock(mutex_);
  const auto found = scores_.find(plan);
  return found == scores_.end() ? std::nullopt : std::optional(found->second);
}

void JointScores::keep(const PlanDigest& plan, const JointScore& score) {
  constexpr std::size_t kMost = 2'000'000;  // 150 MB
  const std::scoped_lock lock(mutex_);
  if (scores_.size() >= kMost) scores_.clear();
  const auto [at, is_new] = scores_.try_emplace(plan, score);
  if (!is_new && at->second.known != JointScore::Known::Exactly) at->second = score;
}

}  // namespace pipesim
