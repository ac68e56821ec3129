#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace pipesim {

/// Small values by lists of ids: a flat hash table, because it is asked several times a proposal. A lookup
/// allocates nothing.
template <class Value>
class IdTable {
 public:
  using Key = std::span<const std::int32_t>;

  /// nullptr where there is none. Valid until the next insert().
  [[nodiscard]] const Value* find(Key key) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[position(key, hash_of(key))];
    return slot.used ? &slot.value : nullptr;
  }

  /// The key must be new.
  void insert(Key key, const Value& value) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    const std::uint64_t hash = hash_of(key);
    slots_[position(key, hash)] = {hash, static_cast<std::uint32_t>(keys_.size()),
                                   static_cast<std::uint32_t>(key.size()), true, value};
    keys_.insert(keys_.end(), key.begin(), key.end());
    ++size_;
  }

  void clear() {
    slots_.clear();
    keys_.clear();
    size_ = 0;
  }

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t first = 0, count = 0;  // of keys_
    bool used = false;
    Value value{};
  };

  static std::uint64_t hash_of(Key key) {
    std::uint64_t h = key.size() * 0x9E3779B97F4A7C15ULL;
    for (const std::int32_t id : key) {
      h = (h ^ static_cast<std::uint32_t>(id)) * 0xFF51AFD7ED558CCDULL;
      h ^= h >> 32;
    }
    return h;
  }

  // Of the key, or of the free slot where it belongs.
  [[nodiscard]] std::size_t position(Key key, std::uint64_t hash) const {
    std::size_t at = hash & (slots_.size() - 1);
    while (slots_[at].used && !holds(slots_[at], key, hash)) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  [[nodiscard]] bool holds(const Slot& slot, Key key, std::uint64_t hash) const {
    return slot.hash == hash && slot.count == key.size() &&
           std::equal(key.begin(), key.end(), keys_.begin() + slot.first);
  }

  void grow() {
    std::vector<Slot> old(std::max<std::size_t>(64, 2 * slots_.size()));
    std::swap(old, slots_);
    for (const Slot& slot : old) {
      if (!slot.used) continue;
      std::size_t at = slot.hash & (slots_.size() - 1);
      while (slots_[at].used) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = slot;
    }
  }

  std::vector<Slot> slots_;  // a power of two, at most half of them used
  std::vector<std::int32_t> keys_;
  std::size_t size_ = 0;
};

}  // namespace pipesim
