#include "costmodel/constants/fit_constants.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <set>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kDifference = 0.05;   // of a logarithm, for slopes: more than the steps of a simulation
constexpr double kLeastNoise = 0.005;  // runs of the same plan differ by this much
constexpr double kFirstNoise = 0.08;
constexpr double kFar = 2;  // standard deviations from which on runs weigh less (Huber)
constexpr int kMostSteps = 8;
constexpr double kSmallStep = 2e-3;    // of a logarithm: the fit ends
constexpr double kClearlyLess = 0.96;  // as a share: priors are made tighter
constexpr double kNormal90Sides = 1.6449;

VectorXd vector_of(const std::vector<double>& values) {
  return Eigen::Map<const VectorXd>(values.data(), static_cast<Index>(values.size()));
}

MatrixXd matrix_of(const std::vector<std::vector<double>>& rows, std::size_t columns) {
  MatrixXd matrix(static_cast<Index>(rows.size()), static_cast<Index>(columns));
  for (std::size_t i = 0; i < rows.size(); ++i) matrix.row(static_cast<Index>(i)) = vector_of(rows[i]);
  return matrix;
}

VectorXd logs_of(const ClusterConstants& constants) {
  VectorXd logs(static_cast<Index>(constants.constants.size()));
  for (Index j = 0; j < logs.size(); ++j) logs[j] = constants.constants[static_cast<std::size_t>(j)].log;
  return logs;
}

ClusterConstants moved_to(ClusterConstants constants, const VectorXd& logs) {
  for (Index j = 0; j < logs.size(); ++j) constants.constants[static_cast<std::size_t>(j)].log = logs[j];
  return constants;
}

// Fits by linear steps, from logarithms of the runs' times.
class ConstantsFitter {
 public:
  ConstantsFitter(const std::vector<FittedRun>& runs, const ClusterConstants& start,
                  const PredictRuns& predict)
      : runs_(runs), constants_(start), predict_(predict), measured_(static_cast<Index>(runs.size())) {
    for (Index i = 0; i < measured_.size(); ++i) measured_[i] = run(i).measured;
    prior_ = VectorXd(static_cast<Index>(start.constants.size()));
    for (Index j = 0; j < prior_.size(); ++j)
      prior_[j] = std::pow(prior_deviation(start.constants[static_cast<std::size_t>(j)].kind), -2);
  }

  ConstantsFit fit() {
    VectorXd logs = logs_of(constants_);
    VectorXd predicted = predicted_at(logs);
    ConstantsFit result;
    result.before = errors_of(predicted);
    descend(logs, predicted);
    if (tighten_priors(result.before, logs, predicted)) descend(logs, predicted);
    result.after = errors_of(predicted);
    result.constants = moved_to(constants_, logs);
    result.noise = noise_;
    result.prior_scale = prior_scale_;
    keep_covariance(result.constants);
    const LeftOut left_out = leave_out_families(logs, predicted);
    result.constants.discrepancy = left_out.discrepancy;
    result.left_out = left_out.errors;
    for (Index i = 0; i < slopes_.rows(); ++i) {
      const VectorXd row = slopes_.row(i);
      result.sensitivities.emplace_back(row.begin(), row.end());
    }
    return result;
  }

 private:
  using Solver = Eigen::LDLT<MatrixXd>;
  struct LeftOut {
    std::vector<double> errors;  // ln(predicted / measured)
    double discrepancy = 0;
  };

  void descend(VectorXd& logs, VectorXd& predicted) {
    for (int step = 0; step < kMostSteps; ++step) {
      slopes_at(logs, predicted);
      weigh(measured_ - predicted);
      const VectorXd change = posterior({}).solve(gradient(logs, predicted));
      if (change.size() == 0 || change.cwiseAbs().maxCoeff() < kSmallStep) return;
      if (!advance(change, logs, predicted)) return;
    }
    slopes_at(logs, predicted);
    weigh(measured_ - predicted);
  }

  // Few runs that differ by what constants do not explain would pull constants away from good figures. So
  // priors are as tight as predicts families best that the fit has not seen, if they predict these clearly
  // better, or if factors of 1 predict them better than the fit.
  bool tighten_priors(const std::vector<double>& before, const VectorXd& logs, const VectorXd& predicted) {
    const VectorXd wide = prior_;
    double best = 1, least = INFINITY, clearly = 1;
    for (const double scale : {1.0, 0.5, 0.25, 0.12, 0.06, 0.03}) {
      prior_ = wide / (scale * scale);
      const double sum = sum_of_sizes(leave_out_families(logs, predicted).errors);
      if (scale == 1 && sum < sum_of_sizes(before)) clearly = kClearlyLess;
      if (sum < least * clearly) least = sum, best = scale;
    }
    prior_ = wide / (best * best);
    prior_scale_ = best;
    return best < 1;
  }

  [[nodiscard]] static double sum_of_sizes(const std::vector<double>& errors) {
    double sum = 0;
    for (const double error : errors) sum += std::abs(error);
    return sum;
  }

  [[nodiscard]] const FittedRun& run(Index i) const { return runs_[static_cast<std::size_t>(i)]; }

  [[nodiscard]] VectorXd predicted_at(const VectorXd& logs) const {
    return vector_of(predict_(moved_to(constants_, logs)));
  }

  [[nodiscard]] std::vector<double> errors_of(const VectorXd& predicted) const {
    const VectorXd errors = predicted - measured_;
    return {errors.begin(), errors.end()};
  }

  void slopes_at(const VectorXd& logs, const VectorXd& predicted) {
    const std::vector<double> base(predicted.begin(), predicted.end());
    slopes_ =
        matrix_of(sensitivities_of(moved_to(constants_, logs), base, predict_), constants_.constants.size());
  }

  [[nodiscard]] static double huber(double deviations) {
    return std::abs(deviations) <= kFar ? 1 : kFar / std::abs(deviations);
  }

  // Sets the noise and the weights of runs from their residuals.
  void weigh(const VectorXd& residuals) {
    weights_ = VectorXd::Ones(residuals.size());
    // Constants that were fitted take up some of what runs differ by.
    const Index learned = std::min<Index>(slopes_.colwise().any().count(), residuals.size() / 2);
    const auto free = static_cast<double>(std::max<Index>(1, residuals.size() - learned));
    double noise = kFirstNoise;
    for (int round = 0; round < 10; ++round) {
      for (Index i = 0; i < residuals.size(); ++i) weights_[i] = huber(residuals[i] / noise);
      const double square = (weights_.array() * residuals.array().square()).sum() / free;
      noise = std::max(kLeastNoise, std::sqrt(square));
    }
    noise_ = noise;
  }

  // Returns the posterior of the constants from all runs but the family `left_out` and the run `alone`.
  [[nodiscard]] Solver posterior(const std::string& left_out, Index alone = -1) const {
    MatrixXd precision = prior_.asDiagonal();
    for (Index i = 0; i < slopes_.rows(); ++i) {
      if (alone == i || (!left_out.empty() && run(i).family == left_out)) continue;
      precision += slopes_.row(i).transpose() * slopes_.row(i) * (weights_[i] / (noise_ * noise_));
    }
    return Solver(precision);
  }

  [[nodiscard]] VectorXd gradient(const VectorXd& logs, const VectorXd& predicted) const {
    const VectorXd weighted = weights_.cwiseProduct(measured_ - predicted) / (noise_ * noise_);
    return slopes_.transpose() * weighted - prior_.cwiseProduct(logs);
  }

  [[nodiscard]] double cost(const VectorXd& logs, const VectorXd& predicted) const {
    const VectorXd residuals = measured_ - predicted;
    return (weights_.array() * residuals.array().square()).sum() / (noise_ * noise_) +
           (prior_.array() * logs.array().square()).sum();
  }

  // The longest part of the change that makes runs more likely.
  bool advance(const VectorXd& change, VectorXd& logs, VectorXd& predicted) const {
    const double before = cost(logs, predicted);
    for (double part = 1; part > 0.1; part /= 2) {
      const VectorXd tried = logs + part * change, said = predicted_at(tried);
      if (cost(tried, said) >= before) continue;
      logs = tried, predicted = said;
      return true;
    }
    return false;
  }

  void keep_covariance(ClusterConstants& constants) const {
    const MatrixXd covariance = posterior({}).solve(MatrixXd::Identity(prior_.size(), prior_.size()));
    const MatrixXd even = (covariance + covariance.transpose()) / 2;
    constants.covariance.assign(even.data(), even.data() + even.size());
  }

  // Treats runs as linear in the constants, which they nearly are near the fit.
  [[nodiscard]] LeftOut leave_out_families(const VectorXd& logs, const VectorXd& predicted) const {
    LeftOut result;
    std::set<std::string> families;
    for (const FittedRun& r : runs_) families.insert(r.family);
    constexpr std::size_t kFewFamilies = 3;
    std::vector<double> needed;  // squares of the discrepancy with which a run lies in its interval
    const VectorXd target = measured_ - predicted + slopes_ * logs;
    for (Index i = 0; i < slopes_.rows(); ++i) {
      const bool alone = families.size() < kFewFamilies || run(i).family.empty();
      const std::string& family = alone ? std::string() : run(i).family;
      const Solver solver = posterior(family, alone ? i : -1);
      VectorXd sum = VectorXd::Zero(prior_.size());
      for (Index k = 0; k < slopes_.rows(); ++k) {
        if (alone ? k == i : run(k).family == family) continue;
        sum += slopes_.row(k).transpose() * (weights_[k] * target[k] / (noise_ * noise_));
      }
      const VectorXd without = solver.solve(sum), slope = slopes_.row(i).transpose();
      const double residual = target[i] - slope.dot(without), variance = slope.dot(solver.solve(slope));
      result.errors.push_back(-residual);
      needed.push_back(std::max(0.0, std::pow(residual / kNormal90Sides, 2) - variance));
    }
    std::ranges::sort(needed);
    const auto rank = static_cast<std::size_t>(std::ceil(0.9 * static_cast<double>(needed.size() + 1)));
    result.discrepancy = std::max(kLeastNoise, std::sqrt(needed[std::min(rank, needed.size()) - 1]));
    return result;
  }

  const std::vector<FittedRun>& runs_;
  const ClusterConstants& constants_;
  const PredictRuns& predict_;
  VectorXd measured_, prior_, weights_;
  MatrixXd slopes_;
  double noise_ = kFirstNoise, prior_scale_ = 1;
};

}  // namespace

std::vector<std::vector<double>> sensitivities_of(const ClusterConstants& constants,
                                                  std::span<const double> predicted,
                                                  const PredictRuns& predict) {
  std::vector<std::vector<double>> slopes(predicted.size());
  for (std::size_t j = 0; j < constants.constants.size(); ++j) {
    ClusterConstants moved = constants;
    moved.constants[j].log += kDifference;
    const std::vector<double> there = predict(moved);
    for (std::size_t i = 0; i < predicted.size(); ++i)
      slopes[i].push_back((there[i] - predicted[i]) / kDifference);
  }
  return slopes;
}

PredictionInterval interval_of(const ClusterConstants& constants, Seconds predicted,
                               const std::function<Seconds(const ClusterConstants&)>& predict) {
  const double base = std::log(predicted.value);
  const auto slopes = sensitivities_of(constants, std::span(&base, 1), [&](const ClusterConstants& moved) {
    return std::vector{std::log(predict(moved).value)};
  });
  return interval_around(predicted, log_deviation(constants, slopes.front()));
}

ConstantsFit fit_constants(const std::vector<FittedRun>& runs, const ClusterConstants& start,
                           const PredictRuns& predict) {
  if (runs.empty()) throw InputError("found no measured run that can be predicted, allowed: at least one");
  return ConstantsFitter(runs, start, predict).fit();
}

std::vector<std::size_t> most_informative(const ClusterConstants& constants,
                                          const std::vector<std::vector<double>>& sensitivities,
                                          std::size_t count) {
  const std::size_t size = constants.constants.size();
  MatrixXd covariance = Eigen::Map<const MatrixXd>(constants.covariance.data(), static_cast<Index>(size),
                                                   static_cast<Index>(size));
  const double noise = std::pow(std::max(kLeastNoise, constants.discrepancy), 2);
  std::vector<std::size_t> chosen;
  while (chosen.size() < std::min(count, sensitivities.size())) {
    std::size_t best = sensitivities.size();
    double most = -1;
    for (std::size_t c = 0; c < sensitivities.size(); ++c) {
      if (std::ranges::find(chosen, c) != chosen.end()) continue;
      const VectorXd slope = vector_of(sensitivities[c]);
      if (const double variance = slope.dot(covariance * slope); variance > most) most = variance, best = c;
    }
    const VectorXd common = covariance * vector_of(sensitivities[best]);
    covariance -= common * common.transpose() / (noise + most);
    chosen.push_back(best);
  }
  return chosen;
}

}  // namespace pipesim
