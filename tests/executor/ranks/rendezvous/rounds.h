#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "executor/ranks/rendezvous.h"

namespace pipesim {

/// What rank `rank` says in a round: all byte values, and another length for each rank.
inline std::string text_in_round(int rank, int round, std::size_t bytes) {
  std::string text(bytes + static_cast<std::size_t>(rank), '\0');
  unsigned state = static_cast<unsigned>(rank) * 7919U + static_cast<unsigned>(round) * 104729U + 1U;
  for (char& c : text) c = static_cast<char>((state = state * 1664525U + 1013904223U) >> 24);
  return text;
}

/// A call of all ranks: gathers, broadcasts and barriers in turn. Throws when a text is not what it should
/// be.
inline void make_rounds(Rendezvous& ranks, int rounds, std::size_t bytes) {
  for (int round = 0; round < rounds; ++round) {
    const auto texts = ranks.all_gather(text_in_round(ranks.rank(), round, bytes), "texts");
    if (texts.size() != static_cast<std::size_t>(ranks.size())) throw std::runtime_error("other sizes");
    for (int r = 0; r < ranks.size(); ++r) {
      if (texts[static_cast<std::size_t>(r)] != text_in_round(r, round, bytes))
        throw std::runtime_error("gathered texts differ");
    }
    const int root = round % ranks.size();
    const std::string mine = text_in_round(ranks.rank(), round + 1, bytes);
    if (ranks.broadcast(mine, root, "one text") != text_in_round(root, round + 1, bytes))
      throw std::runtime_error("the root's text differs");
    ranks.barrier("barrier");
  }
}

}  // namespace pipesim
