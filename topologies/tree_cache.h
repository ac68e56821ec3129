#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace pipesim {

/// Trees of shortest ways by their source, made on first use. When a shard is full, its oldest is dropped.
/// Safe to call from several threads: a lock per shard keeps them out of each other's way.
template <class Tree>
class TreeCache {
 public:
  TreeCache(std::size_t bytes, std::size_t bytes_of_a_tree)
      : trees_per_shard_(
            std::max<std::size_t>(1, bytes / shards_.size() / std::max<std::size_t>(1, bytes_of_a_tree))) {}

  template <class Make>
  std::shared_ptr<const Tree> of(std::int32_t source, Make make) {
    Shard& shard = shards_[static_cast<std::size_t>(source) % shards_.size()];
    const std::scoped_lock lock(shard.mutex);
    std::shared_ptr<const Tree>& tree = shard.trees[source];
    if (tree) return tree;
    tree = std::make_shared<const Tree>(make(source));
    const std::shared_ptr<const Tree> found = tree;
    shard.oldest_first.push_back(source);
    if (shard.oldest_first.size() > trees_per_shard_) {
      shard.trees.erase(shard.oldest_first.front());
      shard.oldest_first.pop_front();
    }
    return found;
  }

 private:
  struct Shard {
    std::mutex mutex;
    std::unordered_map<std::int32_t, std::shared_ptr<const Tree>> trees;
    std::deque<std::int32_t> oldest_first;
  };
  std::array<Shard, 64> shards_;
  std::size_t trees_per_shard_;
};

}  // namespace pipesim
