#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "executor/gpu/bodies/parts/body.h"
#include "executor/gpu/bodies/parts/divisor.h"

namespace pipesim::gpu {

/// A tensor [samples, channels, plane]. The elements of a channel, [samples, plane], are added up in chunks.
struct ChannelPlanes {
  ChannelPlanes() = default;
  ChannelPlanes(std::int64_t all_samples, std::int64_t all_channels, std::int64_t elements_of_plane)
      : samples(all_samples),
        channels(all_channels),
        plane(elements_of_plane),
        planes(plane > 0 ? plane : 1, elements()),
        rounds(channels > 0 ? channels : 1, samples * channels) {
    constexpr std::int64_t enough_teams = 1024, least_chunk = 4096;
    const std::int64_t wanted = channels > 0 ? enough_teams / channels : 1, most = of_channel() / least_chunk;
    chunks = wanted < most ? wanted : most;
    if (chunks < 1) chunks = 1;
  }
  std::int64_t samples = 0, channels = 0, plane = 0, chunks = 1;
  Divisor planes, rounds;

  [[nodiscard]] PIPESIM_DEVICE std::int64_t of_channel() const { return samples * plane; }
  [[nodiscard]] PIPESIM_DEVICE std::int64_t elements() const { return samples * channels * plane; }
  /// Teams of ChannelSums: one for every channel and chunk.
  [[nodiscard]] std::int64_t teams() const { return channels * chunks; }
  /// The channel of an element of the tensor.
  [[nodiscard]] PIPESIM_DEVICE std::int64_t channel_of(std::int64_t element) const {
    const std::int64_t row = planes.quotient(element);
    return row - rounds.quotient(row) * channels;
  }
  /// Element j of those of a channel.
  [[nodiscard]] PIPESIM_DEVICE std::int64_t element(std::int64_t channel, std::int64_t j) const {
    const std::int64_t sample = planes.quotient(j);
    return (sample * channels + channel) * plane + (j - sample * plane);
  }
};

/// Sums over a chunk of a channel, partial[sum, channel, chunk], of what
///   void Terms::add(std::array<double, Terms::sums>&, std::int64_t element, std::int64_t channel) const
/// adds.
template <class Terms>
struct ChannelSums {
  ChannelPlanes planes;
  Terms terms;
  double* partial = nullptr;
  template <class Team>
  PIPESIM_DEVICE void operator()(Team& team, std::int64_t i) const {
    const std::int64_t channel = i / planes.chunks, chunk = i - channel * planes.chunks;
    const std::int64_t n = planes.of_channel();
    const std::int64_t begin = n * chunk / planes.chunks, end = n * (chunk + 1) / planes.chunks;
    std::array<double, Terms::sums> own{};
    for (std::int64_t j = begin + team.rank(); j < end; j += team.size())
      terms.add(own, planes.element(channel, j), channel);
    for (std::size_t s = 0; s < Terms::sums; ++s) {
      const double sum = team.sum(own[s]);
      if (team.rank() == 0)
        partial[(static_cast<std::int64_t>(s) * planes.channels + channel) * planes.chunks + chunk] = sum;
    }
  }
};

/// The sum of partial[row, chunk], for all threads of the team.
template <class Team>
PIPESIM_DEVICE double sum_of_chunks(Team& team, const double* partial, std::int64_t row,
                                    std::int64_t chunks) {
  double own = 0;
  for (std::int64_t c = team.rank(); c < chunks; c += team.size()) own += partial[row * chunks + c];
  return team.sum(own);
}

}  // namespace pipesim::gpu
