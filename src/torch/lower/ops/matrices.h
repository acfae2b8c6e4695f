// Algorithms on batches of square or rectangular matrices, as loops of ONNX operators; they compute in double.
#pragma once

#include "torch/lower/builder.h"

namespace ferry::torch {

Operand IdentityLike(Builder& b, const Operand& matrices);  // of as many rows and columns as the matrices have rows
Operand Adjoint(Builder& b, const Operand& matrices);       // transposed; conjugated too when complex
Operand Triangle(Builder& b, const Operand& x, bool upper, int64_t diagonal = 0);
Operand UnitDiagonal(Builder& b, const Operand& strict_triangle);  // with ones on the diagonal
Operand SymmetricOf(Builder& b, const Operand& x, bool upper);     // from one of its triangles
// X with A X = B, by elimination with partial pivoting. B has as many rows as A.
Operand SolveOf(Builder& b, const Operand& a, const Operand& rhs);
Operand InverseOf(Builder& b, const Operand& a);
// The lower triangle L with L L' = A; only the lower triangle of A is read.
Operand CholeskyOf(Builder& b, const Operand& a);
// H1 H2 … Hk applied to `to`, with Hi = I - tau_i v_i v_i', v_i being column i of `reflectors` below its diagonal.
Operand ApplyReflectors(Builder& b, const Operand& reflectors, const Operand& tau, const Operand& to, bool transposed);

// Householder's form of A, as LAPACK has it: the upper triangle, and below it the reflectors with their factors tau.
struct Reflected {
  Operand packed, tau;
};
Reflected ReflectorsOf(Builder& b, const Operand& a);

// L and U in one matrix, and the rows that were exchanged, counted from 1.
struct Eliminated {
  Operand packed, pivots;
};
Eliminated EliminationOf(Builder& b, const Operand& a);

// Pivots are successive exchanges, counted from 1: where row i of the product comes from.
Operand PermutationOf(Builder& b, const Operand& pivots, int64_t rows);

// Singular values in falling order with the vectors that belong to them: A = left · diag(values) · right'.
struct Singular {
  Operand left, values, right;
};
Singular SingularOf(Builder& b, const Operand& a);

}  // namespace ferry::torch
