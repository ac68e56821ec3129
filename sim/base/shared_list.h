#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace pipesim {

/// A list that is made once. Copies share its elements, so that they cost nothing.
template <class T>
class SharedList {
 public:
  using value_type = T;
  using const_iterator = const T*;
  using iterator = const T*;

  SharedList() = default;
  /// Conversion is meant: a list is put together as a vector.
  SharedList(std::vector<T> list) {
    const auto owner = std::make_shared<const std::vector<T>>(std::move(list));
    size_ = owner->size();
    first_ = std::shared_ptr<const T>(owner, owner->data());
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] const T* data() const { return first_.get(); }
  [[nodiscard]] const T* begin() const { return data(); }
  [[nodiscard]] const T* end() const { return data() + size_; }
  [[nodiscard]] const T& operator[](std::size_t i) const { return data()[i]; }
  [[nodiscard]] const T& front() const { return data()[0]; }
  [[nodiscard]] std::size_t bytes() const { return size_ * sizeof(T); }  ///< of its elements, shared or not

  bool operator==(const SharedList& other) const {
    return first_ == other.first_ || std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  std::shared_ptr<const T> first_;
  std::size_t size_ = 0;
};

}  // namespace pipesim
