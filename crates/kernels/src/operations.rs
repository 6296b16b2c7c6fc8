//! The operations of a kernel, as one list.

/// Hands a macro the traits that make up a [`Kernel`](crate::Kernel): documentation, signature and the
/// generic function that implements each operation for every instruction set.
macro_rules! operations {
    ($macro:ident! { $($args:tt)* }) => { $macro! { { $($args)* }
        /// Products of ternary matrices and int8 activations.
        trait TernaryKernel {
            /// Quantizes one row of activations to int8: with `s = 127 / max(absmax, 1e-5)`, a code
            /// is `x * s` rounded half to even and clamped to -128..=127.
            ///
            /// `codes.len()` is a multiple of 64 and at least `x.len()`; codes beyond `x` become
            /// zero. `sums[i]` becomes the sum of the `i`-th 64 codes. Returns `1 / s`, the factor
            /// that turns codes back into values. A NaN in `x` makes the factor NaN, so it
            /// propagates.
            fn quantize(x: &[f32], codes: &mut [i8], sums: &mut [i32]) -> f32
                = $crate::quant::quantize;

            /// Normalizes one row as [`rms_norm`](FloatKernel::rms_norm) does and quantizes the
            /// result as [`quantize`](Self::quantize) does, without storing it in between.
            fn norm_and_quantize(
                x: &[f32],
                norm: RmsNorm<'_>,
                codes: &mut [i8],
                sums: &mut [i32],
            ) -> f32 = $crate::quant::norm_and_quantize;

            /// Multiplies the sixteen output rows `16 * strip ..` of `w` by every row of `xs`.
            /// `y.row(t)` receives the (at most sixteen) outputs of token `t`.
            /// [`multiply`](crate::multiply) does whole matrices.
            fn multiply(w: &TernaryMatrix, strip: usize, xs: &[QuantRow], y: &mut Strip<'_, f32>)
                = $crate::product::multiply_strip;

            /// Computes the neurons `relu(gate · x)² * (up · x)` of the strips of `gate` from
            /// `first_strip` on, at most 128 neurons, with the bits of [`multiply`](Self::multiply)
            /// and [`relu2_mul`](FloatKernel::relu2_mul). Reads only the rows of `up` whose gate is
            /// positive, and returns the number of gates that are not.
            /// [`relu2_neurons`](crate::relu2_neurons) does whole matrices.
            fn relu2_neurons(
                gate: &TernaryMatrix,
                up: &TernaryRows,
                x: &QuantRow,
                first_strip: usize,
                neurons: &mut [f32],
            ) -> usize = $crate::sparse::sparse_neurons;

            /// Turns the gates of at most 128 rows from `first_row` on into neurons as
            /// [`relu2_neurons`](Self::relu2_neurons) does, in place, and returns the number of
            /// gates that are not positive. Rows are prefetched unless tokens before have read them.
            /// [`multiply_relu2`](crate::multiply_relu2) does whole matrices and many tokens.
            fn open_neurons(
                up: &TernaryRows,
                x: &QuantRow,
                first_row: usize,
                in_cache: bool,
                neurons: &mut [f32],
            ) -> usize = $crate::sparse::open_neurons;

            /// Finds the nonzero codes of a token. [`NonZeros::find`] documents the conditions.
            fn find_non_zeros(x: &QuantRow, found: &mut NonZeros) = $crate::sparse::find_non_zeros;

            /// Multiplies the rows from `256 * first_line` on of `w` by `x`, with the bits of
            /// [`multiply`](Self::multiply), reading only the columns of `x`.
            /// [`multiply_add_columns`](crate::multiply_add_columns) does whole matrices.
            fn multiply_columns(
                w: &TernaryColumns,
                first_line: usize,
                x: &NonZeros,
                y: &mut [f32],
            ) = $crate::sparse::sparse_columns;

            /// Adds the products that [`multiply_columns`](Self::multiply_columns) computes of line
            /// `line` to a row of `total` for each of `xs`.
            /// [`multiply_add_columns_of_each`](crate::multiply_add_columns_of_each) does whole
            /// matrices.
            fn add_columns_of_each(
                w: &TernaryColumns,
                line: usize,
                xs: &[NonZeros],
                total: &mut Strip<'_, f32>,
            ) = $crate::sparse::add_columns_of_each;

            /// Computes the exact sums of code times activation for all rows of `w`, over some
            /// groups of four columns of `x`, for its first row of codes and the second, if there is
            /// one. [`multiply_columns_each`](crate::multiply_columns_each) does whole matrices.
            fn sum_columns(
                w: &TernaryColumns,
                x: &NonZeros,
                quads: Range<usize>,
                coarse: &mut [i32],
                fine: &mut [i32],
            ) = $crate::sparse::sum_columns;
        }

        /// Dot products with the rows of large tables, such as the output head.
        trait TableKernel {
            /// Computes the exact dot products of the rows `16 * strip ..` of `w` with every row of
            /// `xs`. `y.row(t)` receives the (at most sixteen) products of token `t`.
            /// [`int8_products`](crate::int8_products) does whole matrices.
            fn int8_dots(w: &Int8Matrix, strip: usize, xs: &[QuantRow], y: &mut Strip<'_, i32>)
                = $crate::int8::strip_dots;

            /// As [`int8_dots`](Self::int8_dots), for codes of four bits.
            fn nibble_dots(
                w: &NibbleMatrix,
                strip: usize,
                xs: &[QuantRow],
                y: &mut Strip<'_, i32>,
            ) = $crate::int8::strip_dots;

            /// Bounds the scores of sixteen rows from their dot products with the coarse and the
            /// fine codes of a vector: a score is estimated as `(coarse - shift) * x.coarse + fine *
            /// x.fine + x.offset`, times the row's scale, with an error of at most `error * x.per_error +
            /// norm * x.per_norm + x.base_error`.
            fn bound_scores(
                sums: [&[i32; 16]; 2],
                rows: &RowBounds,
                x: &VectorBounds,
                out: &mut ScoreBounds,
            ) = $crate::bounds::bound_scores;

            /// Replaces the bounds of sixteen scores by those of `score * factor + noise`, where the
            /// first score has the index `first`.
            fn perturb_bounds(
                key: NoiseKey,
                first: u32,
                factor: f32,
                bounds: &mut ScoreBounds,
            ) = $crate::noise::perturb_bounds;

            /// Computes `y[r] = rows[r] · x` for `y.len()` rows of `x.len()` elements.
            fn dots(rows: FloatRows<'_>, x: &[f32], y: &mut [f32]) = $crate::float::dots;

            /// Computes `y.row(t)[r] = rows[r] · xs[t]`, with the bits of [`dots`](Self::dots), for
            /// `y.rows()` vectors that follow each other in `xs`. Reads the rows from memory only
            /// once.
            fn dots_many(rows: FloatRows<'_>, xs: &[f32], y: &mut Strip<'_, f32>)
                = $crate::float::dots_many;

            /// As [`dots_many`](Self::dots_many), with the same bits, for rows of codes.
            fn code_dots(rows: CodeRows<'_>, xs: &[f32], y: &mut Strip<'_, f32>)
                = $crate::codes::code_dots;
        }

        /// Operations on rows of floats.
        trait FloatKernel {
            /// `out = x / sqrt(mean(x²) + eps) * weight`, with the parts of `norm`.
            fn rms_norm(x: &[f32], norm: RmsNorm<'_>, out: &mut [f32]) = $crate::float::rms_norm;

            /// Rotates each pair of `head` by its angle. `cos` and `sin` have half the length of
            /// `head`.
            fn rotate(head: &mut [f32], cos: &[f32], sin: &[f32], pairs: RotaryPairs)
                = $crate::float::rotate;

            /// `gate = relu(gate)² * up`. A gate that is not positive gives +0 for any `up`, even
            /// an infinite one, so that `up` need not be computed. A NaN stays NaN.
            fn relu2_mul(gate: &mut [f32], up: &[f32]) = $crate::float::relu2_mul;

            /// `gate = gate / (1 + exp(-gate)) * up`.
            fn silu_mul(gate: &mut [f32], up: &[f32]) = $crate::float::silu_mul;

            /// `gate = gate / 2 * (1 + tanh(√(2/π) * (gate + 0.044715 * gate³))) * up`.
            fn gelu_mul(gate: &mut [f32], up: &[f32]) = $crate::float::gelu_mul;

            /// `x = x / (1 + exp(-gate))`.
            fn sigmoid_mul(x: &mut [f32], gate: &[f32]) = $crate::delta::sigmoid_mul;

            /// `out = silu(Σ inputs[i] * weights[i])`, element by element, where `weights` has a row of
            /// the length of `out` for each input.
            fn convolve(inputs: &[&[f32]], weights: &[f32], out: &mut [f32])
                = $crate::delta::convolve;

            /// Runs the gated delta rule of one head over the tokens of `inputs`, for which `out` has a
            /// row each: the state `S`, a row for each element of a key, becomes
            /// `α S + k ⊗ β (v − kᵀ α S)`, and a row of `out` becomes `qᵀ S`.
            fn delta_rule(inputs: &DeltaInputs<'_>, state: &mut [f32], out: &mut Strip<'_, f32>)
                = $crate::delta::delta_rule;

            /// `out = scale * H (signs * x)`, where `H` is the Sylvester matrix of signs
            /// `(-1)^popcount(i & j)`. All have one length, a power of two.
            fn hadamard(x: &[f32], signs: &[f32], scale: f32, out: &mut [f32])
                = $crate::hadamard::hadamard;

            /// `x += y`.
            fn add(x: &mut [f32], y: &[f32]) = $crate::float::add;

            /// `x = exp(x - max(x)) / sum(exp(x - max(x)))`.
            fn softmax(x: &mut [f32]) = $crate::float::softmax;
        }

        /// Attention over chunks of positions.
        trait AttentionKernel {
            /// Computes the parts of the query heads of `q` for the visible positions of one chunk,
            /// [`part_len`](crate::part_len) floats for each head. Heads do not change each other's
            /// bits; together, they read keys and values from memory only once. `scratch` has been
            /// [prepared] for `q`.
            ///
            /// [prepared]: AttendScratch::prepare
            fn attend_chunk(
                q: &Queries<'_>,
                kv: &KvHead<'_>,
                chunk: usize,
                scratch: &mut AttendScratch,
                parts: &mut [f32],
            ) = $crate::attend::attend_chunk;

            /// Merges into each part of `parts` the part of a later chunk of the same head in
            /// `next`. [`attend`](crate::attend) does all chunks.
            fn join_chunks(part_len: usize, parts: &mut [f32], next: &[f32])
                = $crate::attend::join_chunks;

            /// Computes an upper bound on the scores of each page of `kv` from `first_page` on, for
            /// each of the [split](AttendScratch::split_queries) query heads: `out` has as many pages
            /// of the first head, then of the next. A page whose keys have no bounds gives infinity.
            fn bound_pages(queries: &[f32], kv: &KvHead<'_>, first_page: usize, out: &mut [f32])
                = $crate::attend::bound_pages;
        }
    } };
}
pub(crate) use operations;

use std::ops::Range;

use crate::{
    AttendScratch, CodeRows, DeltaInputs, FloatRows, Int8Matrix, KvHead, NibbleMatrix, NoiseKey,
    NonZeros, QuantRow, Queries, RmsNorm, RotaryPairs, RowBounds, ScoreBounds, Strip,
    TernaryColumns, TernaryMatrix, TernaryRows, VectorBounds,
};

macro_rules! define {
    ({} $($(#[$doc:meta])* trait $trait:ident {
        $($(#[$method_doc:meta])*
        fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $result:ty)? = $body:path;)*
    })*) => {
        $($(#[$doc])* pub trait $trait {
            $($(#[$method_doc])* fn $name(&self, $($arg: $type),*) $(-> $result)?;)*
        })*
    };
}

operations! { define! {} }
