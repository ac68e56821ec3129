#include <array>
#include <string_view>
#include <utility>

#include "topologies/kind_parts.h"

namespace pipesim::kinds {
namespace {

// No published table tells how much of a card's peak is reached. Those that may take much power run above the
// datasheet's boost clock, others below it.
struct Card {
  std::string_view name, sheet;
  double float32, tf32, bfloat16, float8;  // TFLOP/s, dense; 0: not native
  double gigabytes, gigabytes_per_second;
  std::int64_t mebibytes;  // as nvidia-smi reports
  double limit;
  std::string_view limit_text;
};

constexpr std::array<Card, 6> kCards{
    {{"L40S", "NVIDIA L40S", 91.6, 183, 362, 733, 48, 864, 46068, 0.75, "0.75 of peak, at 350 W"},
     {"L4", "NVIDIA L4", 30.3, 60, 121, 242.5, 24, 300, 23034, 0.55, "0.55 of peak, at 72 W"},
     {"RTX-3090", "NVIDIA GeForce RTX 3090, GA102 white paper", 35.6, 35.6, 71, 0, 24, 936, 24576, 0.92,
      "0.92 of peak, at 350 W"},
     {"RTX-4090", "NVIDIA GeForce RTX 4090, Ada white paper", 82.6, 82.6, 165.2, 330.3, 24, 1008, 24564, 0.95,
      "0.95 of peak, at 450 W"},
     {"RTX-5090", "NVIDIA GeForce RTX 5090, RTX Blackwell white paper", 104.8, 104.8, 209.5, 419, 32, 1792,
      32607, 0.92, "0.92 of peak, at 575 W"},
     {"RTX-PRO-6000", "NVIDIA RTX PRO 6000 Blackwell, RTX Blackwell PRO white paper", 125, 251.9, 503.8,
      1007.6, 96, 1792, 97887, 0.75, "0.75 of peak, at 600 W"}}};

DeviceKind card_kind(const Card& card) {
  using enum DataType;
  constexpr double kOfMemory = 0.85;
  Peaks peak{{Float32, tera(card.float32)},
             {TensorFloat32, tera(card.tf32)},
             {Float16, tera(card.bfloat16)},
             {BFloat16, tera(card.bfloat16)}};
  if (card.float8 > 0) peak[Float8] = tera(card.float8);
  return with_frameworks(
      kind(std::string(card.name), std::move(peak), card.limit,
           {card.gigabytes, card.gigabytes_per_second, kOfMemory},
           {std::string(card.sheet) + " (dense, accumulated in float32)", kNothingMeasured,
            std::string(card.limit_text) + "; 0.85 of memory bandwidth; " + kLaunchAsMeasured}),
      card.mebibytes);
}

}  // namespace

std::vector<DeviceKind> card_kinds() {
  std::vector<DeviceKind> made;
  for (const Card& card : kCards) made.push_back(card_kind(card));
  return made;
}

}  // namespace pipesim::kinds
