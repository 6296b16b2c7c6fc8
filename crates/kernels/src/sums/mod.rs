//! The integer algorithms, written once over [`IntLanes`], and compiled for each instruction set.
//!
//! Integer sums are exact in any order, so every instruction set returns the same numbers. Loops stay
//! loops here: a closure passed to `map` would remain a call in functions as large as these become,
//! and a call cannot use the instructions of the function around it.

mod sparse;
mod strips;
#[cfg(test)]
pub(crate) mod tests;
mod values;

use crate::QuantRow;
use crate::int_lanes::{CodeWidth, ColumnQuads, ColumnSums, IntLanes, ValuePages, WeightPair};
use crate::line::{Line, STRIP};
pub(crate) use sparse::{add_columns, row_sums};
pub(crate) use strips::{code_sums, line_sums};
pub(crate) use values::value_sums;

/// Hands a macro the trait of the integer sums that kernels are made of: the algorithms of `sums`,
/// compiled for one instruction set.
macro_rules! int_sums {
    ($macro:ident! { $($args:tt)* }) => { $macro! { { $($args)* }
        /// The integer sums that kernels are made of; see `sums` for each.
        trait IntSums: IntLanes {
            fn line_sums[const T: usize][T](
                lines: &[Line],
                tokens: [&[i8]; T],
                initial: [i32; T],
                ahead: $crate::ahead::Ahead,
            ) -> [[i32; STRIP]; T] = $crate::sums::line_sums;

            fn five_trit_sums[const T: usize][T](
                lines: &[Line],
                tokens: [&[i8]; T],
                ahead: $crate::ahead::Ahead,
            ) -> [[i32; STRIP]; T] = IntLanes::decode_five_trits;

            fn code_sums[W: CodeWidth, const T: usize][W, T](
                lines: &[Line],
                xs: [&QuantRow; T],
                ahead: $crate::ahead::Ahead,
            ) -> [[i32; STRIP]; T] = $crate::sums::code_sums::<_, W, T>;

            fn value_sums[V: ValuePages, const T: usize, const B: usize][V, T, B](
                values: &V,
                first: usize,
                weights: [&[WeightPair]; T],
            ) -> [[[i32; 16]; B]; T] = $crate::sums::value_sums;

            fn row_sums[const R: usize][R](rows: [&[Line]; R], codes: &[i8])
                -> [i32; R] = $crate::sums::row_sums;

            fn add_columns[][](quads: ColumnQuads<'_>, sums: &mut ColumnSums)
                = IntLanes::accumulate_columns;
        }
    } };
}
pub(crate) use int_sums;

macro_rules! define {
    ({} $(#[$doc:meta])* trait $trait:ident: $super:ident {
        $(fn $name:ident[$($generics:tt)*][$($names:tt)*]($($arg:ident: $type:ty),* $(,)?)
            $(-> $result:ty)? = $body:expr;)*
    }) => {
        $(#[$doc])* pub(crate) trait $trait: $super {
            $(fn $name<$($generics)*>(&self, $($arg: $type),*) $(-> $result)?;)*
        }
    };
}

int_sums! { define! {} }
