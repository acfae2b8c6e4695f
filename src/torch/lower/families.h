// The tables of lowering rules, one per file in src/torch/lower/ops/. A new family is a line here and one in rule.cc.
#pragma once

#include <span>

#include "torch/lower/rule.h"

namespace ferry::torch {

std::span<const Rule> SymbolRules();
std::span<const Rule> PointwiseRules();
std::span<const Rule> ComparisonRules();
std::span<const Rule> ActivationRules();
std::span<const Rule> CreationRules();
std::span<const Rule> ViewRules();
std::span<const Rule> SliceRules();
std::span<const Rule> JoinRules();
std::span<const Rule> MatrixRules();
std::span<const Rule> ConvolutionRules();
std::span<const Rule> NormalizationRules();
std::span<const Rule> PoolingRules();
std::span<const Rule> ReductionRules();
std::span<const Rule> IndexRules();
std::span<const Rule> PaddingRules();
std::span<const Rule> AttentionRules();
std::span<const Rule> RecurrentRules();
std::span<const Rule> ControlFlowRules();
std::span<const Rule> ResampleRules();
std::span<const Rule> SortingRules();
std::span<const Rule> LossRules();
std::span<const Rule> DifferenceRules();
std::span<const Rule> ErrorFunctionRules();
std::span<const Rule> GammaFunctionRules();
std::span<const Rule> BesselRules();
std::span<const Rule> RecurrenceRules();
std::span<const Rule> FourierRules();
std::span<const Rule> LinalgRules();
std::span<const Rule> MatrixNormRules();
std::span<const Rule> EmbeddingRules();
std::span<const Rule> OrderStatisticRules();
std::span<const Rule> IncompleteGammaRules();
std::span<const Rule> SpectrogramRules();
std::span<const Rule> DecompositionRules();
std::span<const Rule> TransformerRules();
std::span<const Rule> DetectionRules();
std::span<const Rule> RandomRules();
std::span<const Rule> LdlRules();

}  // namespace ferry::torch
