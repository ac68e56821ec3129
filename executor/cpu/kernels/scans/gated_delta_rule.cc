#include <cmath>
#include <vector>

#include "executor/cpu/kernels/scans/scan_parts.h"

namespace pipesim::cpu {
namespace {

/// values: q[b, s, g, d], k[b, s, g, d], v[b, s, g, r, e], step[b, s, g, r] or step[b, s, g, r, d], beta[b,
/// s, g, r], a[g, r], step_bias as a row of step, y[b, s, g, r, e]. For each head, with states S[d, e], q and
/// k of length 1, and log α_t = −exp(a) · softplus(step_t + step_bias): P = α_t S_{t−1}; S_t = P + k_t
/// (β_t (v_t − Pᵀ k_t))ᵀ; y_t = S_tᵀ q_t / √d.
class GatedDeltaRule : public Kernel {
 public:
  void forward(const ShardCall& call, std::size_t /*segment*/) const override {
    for (std::int64_t head = 0; head < Head::count(call); ++head) {
      const Head rule(call, head);
      std::vector<double> state(static_cast<std::size_t>(rule.d * rule.e), 0.0);
      for (std::int64_t t = 0; t < rule.s; ++t) {
        rule.advance(t, state);
        rule.write_result(t, state);
      }
    }
  }

  void backward_input(const ShardCall& call, std::size_t /*segment*/) const override {
    OperandGradients sums(call, y);
    for_each_term(Head::count(call), call.step.sums,
                  [&](std::int64_t head) { send_back(Head(call, head), sums); });
    for (const Use use : {q, k}) send_back_norm(call, use, sums.of(use));
    sums.store();
  }

 private:
  enum Use : std::size_t { q, k, v, step, beta, a, step_bias, y };
  using Vector = std::vector<double>;

  /// A row of q or k and its length. Rows of 0 stay 0.
  struct Row {
    Row(const ShardCall& call, Use use, std::int64_t first, std::int64_t d) {
      constexpr double least_square = 1e-6;  // as in flash-linear-attention
      double square = least_square;
      for (std::int64_t i = 0; i < d; ++i) {
        unit.push_back(value_of(call, use, first + i));
        square += unit.back() * unit.back();
      }
      length = std::sqrt(square);
      for (double& element : unit) element /= length;
    }
    Vector unit;
    double length = 0;
  };

  /// A head of a sample, and where its operands are.
  struct Head {
    Head(const ShardCall& call_, std::int64_t head) : call(call_) {
      const Box box = box_of(call, v), steps = box_of(call, step);
      s = box[1].length(), groups = box[2].length(), members = box[3].length(), e = box[4].length();
      d = box_of(call, q)[3].length();
      channels = steps.dims() == 5 ? d : 1;
      of_weights = head % (groups * members), group = of_weights / members,
      sample = head / (groups * members);
    }
    static std::int64_t count(const ShardCall& call) {
      return volume(box_of(call, v), 0, 1) * volume(box_of(call, v), 2, 4);
    }
    [[nodiscard]] std::int64_t at(std::int64_t t) const {
      return (sample * s + t) * groups * members + of_weights;
    }
    [[nodiscard]] std::int64_t of_keys(std::int64_t t) const {
      return ((sample * s + t) * groups + group) * d;
    }
    [[nodiscard]] double value(std::size_t use, std::int64_t i) const { return value_of(call, use, i); }
    [[nodiscard]] Row row(Use use, std::int64_t t) const { return {call, use, of_keys(t), d}; }
    [[nodiscard]] double rate() const { return -std::exp(value(a, of_weights)); }
    [[nodiscard]] double scale() const { return 1 / std::sqrt(static_cast<double>(d)); }
    /// The step of row i of the state, before softplus.
    [[nodiscard]] double raw_step(std::int64_t t, std::int64_t i) const {
      const std::int64_t channel = i % channels;
      return value(step, at(t) * channels + channel) + value(step_bias, of_weights * channels + channel);
    }
    [[nodiscard]] double log_decay(std::int64_t t, std::int64_t i) const {
      return rate() * positive_step(raw_step(t, i));
    }
    [[nodiscard]] std::size_t element(std::int64_t i, std::int64_t j) const {
      return static_cast<std::size_t>(i * e + j);
    }

    void fade(std::int64_t t, Vector& state) const {
      for (std::int64_t i = 0; i < d; ++i) {
        const double kept = std::exp(log_decay(t, i));
        for (std::int64_t j = 0; j < e; ++j) state[element(i, j)] *= kept;
      }
    }
    /// What v has beyond what the faded state holds for the key.
    [[nodiscard]] Vector news(std::int64_t t, const Vector& key, const Vector& faded) const {
      Vector rest(static_cast<std::size_t>(e));
      for (std::int64_t j = 0; j < e; ++j) {
        double held = 0;
        for (std::int64_t i = 0; i < d; ++i) held += key[static_cast<std::size_t>(i)] * faded[element(i, j)];
        rest[static_cast<std::size_t>(j)] = value(v, at(t) * e + j) - held;
      }
      return rest;
    }
    void advance(std::int64_t t, Vector& state) const {
      fade(t, state);
      const Vector key = row(k, t).unit, rest = news(t, key, state);
      const double part = value(beta, at(t));
      for (std::int64_t i = 0; i < d; ++i) {
        for (std::int64_t j = 0; j < e; ++j)
          state[element(i, j)] += key[static_cast<std::size_t>(i)] * part * rest[static_cast<std::size_t>(j)];
      }
    }
    void write_result(std::int64_t t, const Vector& state) const {
      const Vector query = row(q, t).unit;
      for (std::int64_t j = 0; j < e; ++j) {
        double sum = 0;
        for_each_term(d, call.step.sums, [&](std::int64_t i) {
          sum += query[static_cast<std::size_t>(i)] * state[element(i, j)];
        });
        call.values[y].floats[at(t) * e + j] = static_cast<float>(scale() * sum);
      }
    }

    const ShardCall& call;
    std::int64_t s = 0, groups = 0, members = 0, e = 0, d = 0;
    std::int64_t channels = 1;  ///< decays of a position
    std::int64_t sample = 0, group = 0, of_weights = 0;
  };

  static void send_back(const Head& rule, OperandGradients& sums) {
    Vector gradient(static_cast<std::size_t>(rule.d * rule.e), 0.0);
    walk_back(
        rule.s, rule.d * rule.e, [&](std::int64_t t, Vector& state) { rule.advance(t, state); },
        [&](std::int64_t t, const Vector& before, const Vector& after) {
          send_back_result(rule, t, after, gradient, sums);
          Vector faded = before;
          rule.fade(t, faded);
          send_back_news(rule, t, faded, gradient, sums);
          send_back_decay(rule, t, faded, gradient, sums);
        });
  }

  /// Adds to the gradients of S_t and of q's unit row.
  static void send_back_result(const Head& rule, std::int64_t t, const Vector& after, Vector& gradient,
                               OperandGradients& sums) {
    const Vector query = rule.row(q, t).unit;
    for (std::int64_t i = 0; i < rule.d; ++i) {
      double of_query = 0;
      for (std::int64_t j = 0; j < rule.e; ++j) {
        const double dy =
            rule.scale() * static_cast<double>(rule.call.gradients[y].floats[rule.at(t) * rule.e + j]);
        of_query += after[rule.element(i, j)] * dy;
        gradient[rule.element(i, j)] += query[static_cast<std::size_t>(i)] * dy;
      }
      sums.add(q, rule.of_keys(t) + i, of_query);
    }
  }

  /// From the gradient of S_t to that of P, and to those of v, beta and k's unit row.
  static void send_back_news(const Head& rule, std::int64_t t, const Vector& faded, Vector& gradient,
                             OperandGradients& sums) {
    const Vector key = rule.row(k, t).unit, rest = rule.news(t, key, faded);
    const double part = rule.value(beta, rule.at(t));
    Vector of_rest(rest.size());
    for (std::int64_t j = 0; j < rule.e; ++j) {
      const auto column = static_cast<std::size_t>(j);
      double sum = 0;
      for (std::int64_t i = 0; i < rule.d; ++i)
        sum += gradient[rule.element(i, j)] * key[static_cast<std::size_t>(i)];
      sums.add(beta, rule.at(t), sum * rest[column]);
      of_rest[column] = part * sum;
      sums.add(v, rule.at(t) * rule.e + j, of_rest[column]);
    }
    for (std::int64_t i = 0; i < rule.d; ++i) {
      double of_key = 0;
      for (std::int64_t j = 0; j < rule.e; ++j) {
        const auto column = static_cast<std::size_t>(j);
        double& of_state = gradient[rule.element(i, j)];
        of_key += of_state * part * rest[column] - faded[rule.element(i, j)] * of_rest[column];
        of_state -= key[static_cast<std::size_t>(i)] * of_rest[column];
      }
      sums.add(k, rule.of_keys(t) + i, of_key);
    }
  }

  /// From the gradient of P to that of S_{t−1}, and to those of step, step_bias and a.
  static void send_back_decay(const Head& rule, std::int64_t t, const Vector& faded, Vector& gradient,
                              OperandGradients& sums) {
    for (std::int64_t i = 0; i < rule.d; ++i) {
      const double kept = std::exp(rule.log_decay(t, i)), raw = rule.raw_step(t, i);
      double of_log = 0;
      for (std::int64_t j = 0; j < rule.e; ++j) {
        of_log += gradient[rule.element(i, j)] * faded[rule.element(i, j)];
        gradient[rule.element(i, j)] *= kept;
      }
      const double of_raw = of_log * rule.rate() * slope_of_step(raw);
      sums.add(step, rule.at(t) * rule.channels + i % rule.channels, of_raw);
      sums.add(step_bias, rule.of_weights * rule.channels + i % rule.channels, of_raw);
      sums.add(a, rule.of_weights, of_log * rule.log_decay(t, i));  // the log is its own slope in a
    }
  }

  /// From gradients of unit rows to those of the rows.
  static void send_back_norm(const ShardCall& call, Use use, Vector& gradients) {
    const std::int64_t d = box_of(call, use)[3].length();
    for (std::int64_t first = 0; first < std::ssize(gradients); first += d) {
      const Row row(call, use, first, d);
      double* gradient = gradients.data() + first;
      double along = 0;
      for (std::int64_t i = 0; i < d; ++i) along += row.unit[static_cast<std::size_t>(i)] * gradient[i];
      for (std::int64_t i = 0; i < d; ++i)
        gradient[i] = (gradient[i] - row.unit[static_cast<std::size_t>(i)] * along) / row.length;
    }
  }
};

}  // namespace

std::vector<KernelEntry> gated_delta_rule_kernels() {
  static const GatedDeltaRule rule;
  return {{"gated_delta_rule", &rule}};
}

}  // namespace pipesim::cpu
