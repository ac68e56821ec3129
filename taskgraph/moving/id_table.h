#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>
#include <vector>

namespace pipesim {

/// A flat hash table from lists of ids to small values; a search looks into it several times per proposal. A
/// lookup allocates nothing and never waits: any number of threads may look up while one inserts.
template <class Value>
class IdTable {
 public:
  using Key = std::span<const std::int32_t>;

  /// Returns the value, which is valid until clear(); nullptr where there is none.
  [[nodiscard]] const Value* find(Key key) const {
    const Slots* slots = slots_.load(std::memory_order_acquire);
    if (!slots) return nullptr;
    const std::uint64_t hash = hash_of(key);
    for (std::size_t at = first_of(*slots, hash);; at = next_of(*slots, at)) {
      const Slot& slot = (*slots)[at];
      const std::uint64_t there = slot.hash.load(std::memory_order_acquire);
      if (there == kFree) return nullptr;  // it may be filled at any moment, with this key or another
      if (there == hash && std::ranges::equal(slot.key, key)) return &slot.value;
    }
  }

  /// The key must be new. One thread at a time.
  void insert(Key key, const Value& value) {
    if (tables_.empty() || 2 * (size_ + 1) > tables_.back()->size()) grow();
    Slots& slots = *tables_.back();
    auto* ids = static_cast<std::int32_t*>(keys_.allocate(key.size_bytes(), alignof(std::int32_t)));
    std::ranges::copy(key, ids);
    fill(slots, hash_of(key), Key(ids, key.size()), value);
    ++size_;
  }

  /// Allowed only while nobody else uses the table.
  void clear() {
    slots_ = nullptr;
    tables_.clear();
    keys_.release();
    size_ = 0;
  }

 private:
  static constexpr std::uint64_t kFree = 0;
  struct Slot {
    std::atomic<std::uint64_t> hash = kFree;  // the rest is written before
    Key key;
    Value value{};
  };
  using Slots = std::vector<Slot>;  // a power of two, at most half of them used

  static std::uint64_t hash_of(Key key) {
    std::uint64_t h = key.size() * 0x9E3779B97F4A7C15ULL;
    for (const std::int32_t id : key) {
      h = (h ^ static_cast<std::uint32_t>(id)) * 0xFF51AFD7ED558CCDULL;
      h ^= h >> 32;
    }
    return h == kFree ? kFree + 1 : h;
  }

  static std::size_t first_of(const Slots& slots, std::uint64_t hash) { return hash & (slots.size() - 1); }
  static std::size_t next_of(const Slots& slots, std::size_t at) { return (at + 1) & (slots.size() - 1); }

  static void fill(Slots& slots, std::uint64_t hash, Key key, const Value& value) {
    std::size_t at = first_of(slots, hash);
    while (slots[at].hash.load(std::memory_order_relaxed) != kFree) at = next_of(slots, at);
    Slot& slot = slots[at];
    slot.key = key;
    slot.value = value;
    slot.hash.store(hash, std::memory_order_release);
  }

  // The smaller tables stay: other threads may still look things up in them.
  void grow() {
    constexpr std::size_t kFirst = 64;
    auto larger = std::make_unique<Slots>(tables_.empty() ? kFirst : 2 * tables_.back()->size());
    if (!tables_.empty()) {
      for (const Slot& slot : *tables_.back()) {
        const std::uint64_t hash = slot.hash.load(std::memory_order_relaxed);
        if (hash != kFree) fill(*larger, hash, slot.key, slot.value);
      }
    }
    tables_.push_back(std::move(larger));
    slots_.store(tables_.back().get(), std::memory_order_release);
  }

  std::atomic<const Slots*> slots_ = nullptr;   // the last of tables_
  std::vector<std::unique_ptr<Slots>> tables_;  // each twice as large as the one before
  std::pmr::monotonic_buffer_resource keys_;
  std::size_t size_ = 0;
};

}  // namespace pipesim
