#include "taskgraph/moving/box_cuts.h"

#include <algorithm>

namespace pipesim {

Box bounds_of(const std::vector<Box>& boxes) {
  Box b = boxes.front();
  for (const Box& o : boxes) {
    for (std::size_t i = 0; i < b.dims(); ++i) {
      b[i].begin = std::min(b[i].begin, o[i].begin);
      b[i].end = std::max(b[i].end, o[i].end);
    }
  }
  return b;
}

namespace {

// The dimension along which most boxes begin at different places.
std::size_t most_cut_dim(const std::vector<Box>& boxes) {
  std::size_t dim = 0, most = 0;
  std::vector<std::int64_t> begins(boxes.size());
  for (std::size_t i = 0; i < boxes.front().dims(); ++i) {
    std::ranges::transform(boxes, begins.begin(), [&](const Box& b) { return b[i].begin; });
    std::ranges::sort(begins);
    const auto different =
        static_cast<std::size_t>(std::unique(begins.begin(), begins.end()) - begins.begin());
    if (different > most) most = different, dim = i;
  }
  return dim;
}

}  // namespace

bool disjoint(const std::vector<Box>& boxes) {
  if (boxes.size() < 2) return true;
  if (boxes.front().dims() == 0) return false;
  const std::size_t dim = most_cut_dim(boxes);
  std::vector<const Box*> ordered;
  for (const Box& b : boxes) ordered.push_back(&b);
  std::ranges::sort(ordered, {}, [&](const Box* b) { return (*b)[dim].begin; });
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    for (std::size_t j = i + 1; j < ordered.size() && (*ordered[j])[dim].begin < (*ordered[i])[dim].end;
         ++j) {
      if (ordered[i]->meets(*ordered[j])) return false;
    }
  }
  return true;
}

void AscendingBoxes::add(const Box& box) {
  if (box.dims() == 0) return;
  begins_.push_back(box[0].begin);
  furthest_.push_back(furthest_.empty() ? box[0].end : std::max(furthest_.back(), box[0].end));
}

AscendingBoxes::Stretch AscendingBoxes::near(const Box& box) const {
  if (begins_.empty()) return {0, size_};
  const auto begin = std::ranges::upper_bound(furthest_, box[0].begin) - furthest_.begin();
  const auto end = std::ranges::lower_bound(begins_, box[0].end) - begins_.begin();
  return {static_cast<std::size_t>(std::min(begin, end)), static_cast<std::size_t>(end)};
}

std::optional<std::size_t> slice_dim(std::vector<Box> boxes, const Box& whole) {
  std::optional<std::size_t> dim;
  for (std::size_t i = 0; i < whole.dims(); ++i) {
    const bool differs =
        std::any_of(boxes.begin(), boxes.end(), [&](const Box& b) { return b[i] != whole[i]; });
    if (differs && dim) return std::nullopt;
    if (differs) dim = i;
  }
  if (!dim) return std::nullopt;
  std::sort(boxes.begin(), boxes.end(), [&](const Box& a, const Box& b) { return a[*dim] < b[*dim]; });
  std::int64_t at = whole[*dim].begin;
  for (const Box& b : boxes) {
    if (b[*dim].begin != at || b[*dim].length() != boxes.front()[*dim].length()) return std::nullopt;
    at = b[*dim].end;
  }
  return at == whole[*dim].end ? dim : std::nullopt;
}

std::optional<std::vector<Box>> pieces_of(const Box& box, std::size_t n,
                                          const std::vector<std::size_t>& dims) {
  for (const std::size_t i : dims) {
    const std::int64_t length = box[i].length(), count = static_cast<std::int64_t>(n);
    if (length % count != 0) continue;
    std::vector<Box> pieces(n, box);
    for (std::int64_t j = 0; j < count; ++j) {
      pieces[static_cast<std::size_t>(j)][i] = {box[i].begin + j * length / count,
                                                box[i].begin + (j + 1) * length / count};
    }
    return pieces;
  }
  return std::nullopt;
}

bool exchanges_equal_shares(const std::vector<Box>& held, const std::vector<Box>& wants, const Box& whole) {
  const auto n = static_cast<std::int64_t>(wants.size());
  const auto is_share = [&](const Box& b) { return b.elements() * n == whole.elements(); };
  const auto meets_all_alike = [&](const Box& want) {
    return std::all_of(held.begin(), held.end(),
                       [&](const Box& b) { return shared_elements(b, want) * n * n == whole.elements(); });
  };
  return held.size() == wants.size() && std::all_of(held.begin(), held.end(), is_share) &&
         std::all_of(wants.begin(), wants.end(), is_share) &&
         std::all_of(wants.begin(), wants.end(), meets_all_alike);
}

}  // namespace pipesim
