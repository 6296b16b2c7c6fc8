//! Sums over the lines of a strip: sixteen rows by some tokens.

use crate::QuantRow;
use crate::ahead::Ahead;
use crate::int_lanes::{CodeWidth, IntLanes, MAX_SUMS, QuadBlock, Trits};
use crate::line::{Line, STRIP};
use crate::quant::RUN;

/// Blocks in a run of activations.
const BLOCKS_PER_RUN: usize = RUN / 16;

/// A run of activations.
type QuadRun = [QuadBlock; BLOCKS_PER_RUN];

/// Returns the number of products that may be added to a narrow sum.
#[inline(always)]
pub(super) fn dots_in_narrow<C: IntLanes, W: CodeWidth>() -> usize {
    // A power of two, so that sums are widened at the same points of every block.
    1 << (C::CAPACITY / W::MAX).ilog2()
}

/// For each of `T` tokens and each of sixteen rows, returns `initial` plus the sum of code times
/// activation over `lines`, which are whole runs of columns. Each token has four activations per code
/// and row of a line.
#[inline(always)]
fn strip_sums<C: IntLanes, W: CodeWidth, const T: usize>(
    cpu: C,
    lines: &[Line],
    tokens: [&[i8]; T],
    initial: [i32; T],
    ahead: Ahead,
) -> [[i32; STRIP]; T] {
    let blocks_len = lines.len() / W::BLOCK_LINES;
    let mut blocks: [&[QuadBlock]; T] = [&[]; T];
    for (blocks, codes) in blocks.iter_mut().zip(tokens) {
        *blocks = &codes.as_chunks::<4>().0.as_chunks().0[..blocks_len];
    }
    let mut results = [[0; STRIP]; T];
    for pass in 0..C::PASSES {
        let mut sums = [cpu.splat_sums(0); T];
        for (sums, initial) in sums.iter_mut().zip(initial) {
            *sums = cpu.splat_sums(initial);
        }
        if C::CAPACITY == usize::MAX {
            add_runs::<C, W, T>(cpu, pass, (lines, ahead), &blocks, &mut sums);
        } else {
            add_in_chunks::<C, W, T>(cpu, pass, (lines, ahead), &blocks, &mut sums);
        }
        for (sums, results) in sums.into_iter().zip(&mut results) {
            cpu.store_sums(sums, results, pass);
        }
    }
    results
}

/// Adds the products of all blocks to sums that need not be widened, one run at a time: the fewer
/// instructions a line takes, the more of the following lines the CPU has in sight and loads ahead.
#[inline(always)]
fn add_runs<C: IntLanes, W: CodeWidth, const T: usize>(
    cpu: C,
    pass: usize,
    (lines, ahead): (&[Line], Ahead),
    blocks: &[&[QuadBlock]; T],
    sums: &mut [C::Sums; T],
) {
    let mut runs: [&[QuadRun]; T] = [&[]; T];
    for (runs, blocks) in runs.iter_mut().zip(blocks) {
        *runs = blocks.as_chunks().0;
    }
    let mut narrow = [[cpu.zero(); MAX_SUMS]; T];
    for (i, lines) in lines.chunks_exact(BLOCKS_PER_RUN * W::BLOCK_LINES).enumerate() {
        // For a run of short blocks, or for each long one. Beside every load, products would run out of registers.
        if W::BLOCK_LINES == 1 {
            lines.iter().for_each(|line| ahead.of(line));
        }
        let mut run = [&runs[0][i]; T];
        for t in 1..T {
            run[t] = &runs[t][i];
        }
        for b in 0..BLOCKS_PER_RUN {
            let lines = &lines[b * W::BLOCK_LINES..][..W::BLOCK_LINES];
            if W::BLOCK_LINES > 1 {
                lines.iter().for_each(|line| ahead.of(line));
            }
            let mut block = [&run[0][b]; T];
            for t in 1..T {
                block[t] = &run[t][b];
            }
            add_block::<C, W, T>(cpu, pass, lines, block, b, &mut narrow, sums);
        }
    }
    widen::<C, W, T>(cpu, &narrow, sums);
}

/// Adds the products of all blocks to sums that are widened as often as needed.
#[inline(always)]
fn add_in_chunks<C: IntLanes, W: CodeWidth, const T: usize>(
    cpu: C,
    pass: usize,
    (lines, ahead): (&[Line], Ahead),
    blocks: &[&[QuadBlock]; T],
    sums: &mut [C::Sums; T],
) {
    let chunk_len = (dots_in_narrow::<C, W>() / 4).max(1);
    for (chunk, lines) in lines.chunks(chunk_len * W::BLOCK_LINES).enumerate() {
        let mut narrow = [[cpu.zero(); MAX_SUMS]; T];
        for (i, lines) in lines.chunks_exact(W::BLOCK_LINES).enumerate() {
            lines.iter().for_each(|line| ahead.of(line));
            let mut block = [&blocks[0][chunk * chunk_len + i]; T];
            for t in 1..T {
                block[t] = &blocks[t][chunk * chunk_len + i];
            }
            add_block::<C, W, T>(cpu, pass, lines, block, 0, &mut narrow, sums);
        }
        if dots_in_narrow::<C, W>() >= 4 {
            widen::<C, W, T>(cpu, &narrow, sums);
        }
    }
}

/// Adds the products of four quads of each token, those of block `number` of a run.
#[inline(always)]
fn add_block<C: IntLanes, W: CodeWidth, const T: usize>(
    cpu: C,
    pass: usize,
    lines: &[Line],
    block: [&QuadBlock; T],
    number: usize,
    narrow: &mut [[C::Narrow; MAX_SUMS]; T],
    sums: &mut [C::Sums; T],
) {
    let mut quads = [cpu.quads(block[0]); T];
    for t in 1..T {
        quads[t] = cpu.quads(block[t]);
    }
    // A macro, because the number of a quad has to be a constant. Codes are extracted for two quads
    // ahead of their products.
    macro_rules! add {
        ($bytes:ident, $quad:literal, $next:literal) => {
            let codes = codes_of::<C, W>(cpu, $bytes, $quad);
            if $next % W::PER_BYTE == 0 {
                $bytes = load_line::<C, W, T>(cpu, &lines[$next / W::PER_BYTE], pass);
            }
            let next_codes = codes_of::<C, W>(cpu, $bytes, $next);
            cpu.extract_first(codes, next_codes);
            add_quad::<C, W, T, $quad>(cpu, codes, &quads, 4 * number, narrow, sums);
            add_quad::<C, W, T, $next>(cpu, next_codes, &quads, 4 * number, narrow, sums);
        };
    }
    let mut bytes = load_line::<C, W, T>(cpu, &lines[0], pass);
    add!(bytes, 0, 1);
    if W::PER_BYTE < 4 {
        bytes = load_line::<C, W, T>(cpu, &lines[2 / W::PER_BYTE], pass);
    }
    add!(bytes, 2, 3);
}

#[inline(always)]
fn load_line<C: IntLanes, W: CodeWidth, const T: usize>(
    cpu: C,
    line: &Line,
    pass: usize,
) -> C::Bytes {
    cpu.prefetch_after(line, W::BITS, T);
    cpu.load_bytes(&line.0, pass)
}

/// Extracts the codes that are multiplied by quad `quad` of a block.
#[inline(always)]
fn codes_of<C: IntLanes, W: CodeWidth>(cpu: C, bytes: C::Bytes, quad: usize) -> C::Bytes {
    if W::SIGNED {
        cpu.signed(bytes)
    } else {
        let mask = ((1 << W::BITS) - 1) as u8;
        cpu.field(bytes, W::BITS * (quad % W::PER_BYTE), mask)
    }
}

/// Adds the products of quad `QUAD` of each token and the codes of its columns. Widens the sums if they
/// cannot take four of them.
#[inline(always)]
fn add_quad<C: IntLanes, W: CodeWidth, const T: usize, const QUAD: usize>(
    cpu: C,
    codes: C::Bytes,
    quads: &[C::Quads<'_>; T],
    quads_before: usize,
    narrow: &mut [[C::Narrow; MAX_SUMS]; T],
    sums: &mut [C::Sums; T],
) {
    let sum = (quads_before + QUAD) % C::sums_per_row(T, W::SHORT);
    for (narrow, quads) in narrow.iter_mut().zip(quads) {
        narrow[sum] = if W::SIGNED {
            cpu.dot_signed::<QUAD>(narrow[sum], codes, *quads)
        } else {
            cpu.dot_quad::<QUAD>(narrow[sum], codes, *quads)
        };
    }
    let dots = dots_in_narrow::<C, W>();
    if dots < 4 && (QUAD + 1).is_multiple_of(dots) {
        widen::<C, W, T>(cpu, narrow, sums);
        *narrow = [[cpu.zero(); MAX_SUMS]; T];
    }
}

/// Adds narrow sums to wide ones.
#[inline(always)]
fn widen<C: IntLanes, W: CodeWidth, const T: usize>(
    cpu: C,
    narrow: &[[C::Narrow; MAX_SUMS]; T],
    sums: &mut [C::Sums; T],
) {
    for (sums, narrow) in sums.iter_mut().zip(narrow) {
        for (sum, &narrow) in narrow.iter().enumerate().take(C::sums_per_row(T, W::SHORT)) {
            *sums = cpu.widen(*sums, narrow, W::BITS * (sum % W::PER_BYTE));
        }
    }
}

/// For each of `T` tokens and each of sixteen rows, returns `initial` plus the sum of code times activation
/// over quad lines. Each token has sixteen activations per line. Lines of `ahead` are prefetched meanwhile.
#[inline(always)]
pub(crate) fn line_sums<C: IntLanes, const T: usize>(
    cpu: C,
    lines: &[Line],
    tokens: [&[i8]; T],
    initial: [i32; T],
    ahead: Ahead,
) -> [[i32; STRIP]; T] {
    let Some(mut sums) = cpu.paired_line_sums(lines, tokens) else {
        return strip_sums::<C, Trits, T>(cpu, lines, tokens, initial, ahead);
    };
    for (sums, initial) in sums.iter_mut().zip(initial) {
        for sum in sums {
            *sum += initial;
        }
    }
    sums
}

/// For each of `T` tokens and each of sixteen rows, returns the dot product of codes and activations
/// over `lines`, which are all lines of a strip. Lines of `ahead` are prefetched meanwhile.
#[inline(always)]
pub(crate) fn code_sums<C: IntLanes, W: CodeWidth, const T: usize>(
    cpu: C,
    lines: &[Line],
    xs: [&QuantRow; T],
    ahead: Ahead,
) -> [[i32; STRIP]; T] {
    let (mut tokens, mut initial) = ([xs[0].codes(); T], [0; T]);
    for ((tokens, initial), x) in tokens.iter_mut().zip(&mut initial).zip(xs) {
        *tokens = x.codes();
        if W::SIGNED && C::BIASED {
            // Sums with the bias may leave 32 bits on the way. They wrap, and the result fits.
            *initial = x.sum().wrapping_mul(-128);
        }
    }
    strip_sums::<C, W, T>(cpu, lines, tokens, initial, ahead)
}
