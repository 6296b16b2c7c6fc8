//! The AMX kernel gives the bits of the scalar one: on tiles where the CPU has them, on emulated ones
//! elsewhere. And the emulator refuses what a CPU refuses.

use super::emulator::{self, Address, Fault, Instruction, TileFile, decode};
use super::*;
use crate::arch::Scalar;
use crate::{
    CHUNK, KvDtype, KvShape, KvSlot, KvStore, PAGE_LEN, PAIR, Pool, ProductScratch, Scales,
    attend_parts, int8_products, multiply, multiply_add, multiply_each, multiply_gated,
    nibble_pair_dots, part_len,
};

/// The kernel, and whether its tiles are emulated; nothing on CPUs without AVX-512.
fn kernel() -> Option<(Amx, bool)> {
    if let Ok(amx) = Amx::detect() {
        return Some((*amx, false));
    }
    let Some(vectors) = Amx::vectors() else {
        println!("skipped: this CPU has no AVX-512 VBMI, which the AMX kernel needs besides tiles");
        return None;
    };
    if detect::cpu_has_tiles() {
        // Its instructions are executed, at least some of them, and the emulator would see the others alone.
        println!("skipped: this CPU has tiles, and the system does not permit their use");
        return None;
    }
    emulator::install();
    Some((Amx { vectors, bf16: true }, true))
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % n
    }

    fn floats(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.below(2001) as f32 / 1000.0 - 1.0).collect()
    }

    fn matrix(&mut self, rows: usize, cols: usize, scales: Scales) -> TernaryMatrix {
        let trits: Vec<i8> = (0..rows * cols).map(|_| self.below(3) as i8 - 1).collect();
        matrix(&trits, cols, scales)
    }

    /// Scales of each kind, among them some that f16 holds.
    fn scales(&mut self, rows: usize, cols: usize) -> [Scales; 6] {
        let mut groups =
            |len: usize| Scales::Groups { len, values: self.floats(rows * cols.div_ceil(len)) };
        let [a, b, c] = [64, 128, 256].map(&mut groups);
        let in_512ths = |scale: f32| (scale * 512.0).round() / 512.0;
        let values = self.floats(rows * cols.div_ceil(128)).into_iter().map(in_512ths).collect();
        let d = Scales::Groups { len: 128, values };
        [Scales::Tensor(-0.37), Scales::Rows(self.floats(rows)), a, b, c, d]
    }
}

fn matrix(trits: &[i8], cols: usize, scales: Scales) -> TernaryMatrix {
    let mut w = TernaryMatrix::new(trits.len() / cols, cols, scales);
    let read = |rows: Range<usize>, out: &mut [i8]| {
        out.copy_from_slice(&trits[rows.start * cols..rows.end * cols]);
        Ok::<(), ()>(())
    };
    w.fill(&Pool::new(1), read).unwrap();
    w
}

/// The product on tiles, however few the tokens, and by the scalar kernel.
#[track_caller]
fn check(amx: &Amx, pool: &Pool, w: &TernaryMatrix, xs: &mut QuantBatch, x: &[f32]) {
    for groups in [false, true] {
        xs.quantize_to_tiles(amx, pool, (x, groups), w.cols());
        check_codes(amx, pool, w, xs);
    }
}

#[track_caller]
fn check_codes(amx: &Amx, pool: &Pool, w: &TernaryMatrix, xs: &QuantBatch) {
    let tokens = xs.tokens();
    let [mut expected, mut found] = [0, 1].map(|_| vec![f32::NAN; tokens * w.rows()]);
    multiply(&Scalar, pool, w, xs, &mut expected);
    multiply(amx, pool, w, xs, &mut found);
    for (i, (expected, found)) in expected.iter().zip(&found).enumerate() {
        let shape = format!("{}x{}, {tokens} tokens", w.rows(), w.cols());
        let (token, row) = (i / w.rows(), i % w.rows());
        assert_eq!(
            expected.to_bits(),
            found.to_bits(),
            "{shape}: token {token}, row {row}: {found:e}, scalar says {expected:e}"
        );
    }
}

#[test]
fn products_have_the_bits_of_the_scalar_kernel() {
    let Some((amx, _)) = kernel() else { return };
    let (random, pool) = (&mut Random(1), &Pool::new(2));
    for tokens in 1..=70 {
        let rows = 1 + random.below(70);
        let cols = 1 + random.below(if tokens % 8 == 0 { 1500 } else { 300 });
        // One batch for all: what an earlier product left in it must not matter.
        let mut xs = QuantBatch::new(70, 1500);
        for scales in random.scales(rows, cols) {
            let w = random.matrix(rows, cols, scales);
            check(&amx, pool, &w, &mut xs, &random.floats(tokens * cols));
            let fewer = 1 + random.below(tokens);
            check(&amx, pool, &w, &mut xs, &random.floats(fewer * cols));
        }
    }
}

#[test]
fn shapes_at_the_borders_have_the_bits_of_the_scalar_kernel() {
    let Some((amx, _)) = kernel() else { return };
    let (random, pool) = (&mut Random(2), &Pool::new(1));
    for (rows, cols, tokens) in [
        (16, 64, 16),
        (32, 1024, 32),
        (33, 1025, 33),
        (48, 1088, 17),
        (31, 2048, 8),
        (64, 2560, 9),
        (17, 64, 256),
        (15, 65, 257),
        (1, 100, 560),
    ] {
        let mut xs = QuantBatch::new(tokens, cols);
        for scales in random.scales(rows, cols) {
            let w = random.matrix(rows, cols, scales);
            check(&amx, pool, &w, &mut xs, &random.floats(tokens * cols));
        }
    }
}

#[test]
fn the_largest_sums_are_exact() {
    let Some((amx, _)) = kernel() else { return };
    let pool = &Pool::new(1);
    let (rows, cols, tokens) = (17, 16384, 9);
    for trit in [-1, 1] {
        for value in [-1.0, 1.0] {
            let w = matrix(&vec![trit; rows * cols], cols, Scales::Tensor(1.0));
            let mut xs = QuantBatch::new(tokens, cols);
            check(&amx, pool, &w, &mut xs, &vec![value; tokens * cols]);
        }
    }
}

#[test]
fn products_in_one_run_have_the_bits_of_the_scalar_kernel() {
    let Some((amx, _)) = kernel() else { return };
    let (random, pool) = (&mut Random(5), &Pool::new(2));
    let (cols, tokens) = (200, 21);
    let [a, b, c] = [70, 16, 70].map(|rows| random.matrix(rows, cols, Scales::Tensor(0.4)));
    let x = random.floats(tokens * cols);
    let run = |kernel: &dyn Kernel| {
        let mut xs = QuantBatch::new(tokens, cols);
        xs.quantize(kernel, pool, &x, cols);
        let room = || vec![f32::NAN; tokens * 70];
        let (mut each, mut other) = (room(), vec![f32::NAN; tokens * 16]);
        multiply_each(kernel, pool, [(&a, &mut each), (&b, &mut other)], &xs);
        let (mut total, scratch) = (each.clone(), &mut ProductScratch::new(2));
        multiply_add(kernel, pool, &c, &xs, (&mut total, scratch));
        let mut gate = room();
        multiply_gated(kernel, pool, (&a, &c), &xs, (&mut gate, scratch), |gate, up| {
            kernel.relu2_mul(gate, up);
        });
        let bits = [each, other, total, gate].concat().into_iter().map(f32::to_bits);
        bits.collect::<Vec<_>>()
    };
    assert_eq!(run(&Scalar), run(&amx));
}

#[test]
fn products_with_int8_codes_have_the_bits_of_the_scalar_kernel() {
    let Some((amx, _)) = kernel() else { return };
    let (random, pool) = (&mut Random(6), &Pool::new(2));
    for (rows, cols, tokens) in
        [(16, 64, 8), (33, 200, 16), (70, 130, 17), (1, 1, 32), (40, 300, 70)]
    {
        let codes: Vec<i8> = (0..rows * cols).map(|_| random.below(255) as i8).collect();
        let codes: Vec<i8> = codes.into_iter().map(|code| code.max(-127)).collect();
        let read = |range: Range<usize>, out: &mut [i8]| {
            out.copy_from_slice(&codes[range.start * cols..range.end * cols]);
            Ok::<(), ()>(())
        };
        let w = Int8Matrix::read(pool, (rows, cols), read).unwrap();
        let mut xs = QuantBatch::new(tokens, cols);
        xs.quantize_to_tiles(&amx, pool, (&random.floats(tokens * cols), false), cols);
        let products = |kernel: &dyn Kernel| {
            let mut y = vec![i32::MIN; tokens * rows];
            int8_products(kernel, pool, &w, &xs, &mut y);
            y
        };
        assert_eq!(products(&Scalar), products(&amx), "{rows}x{cols}, {tokens} tokens");

        let read = |range: Range<usize>, out: &mut [i8]| {
            let codes = &codes[range.start * cols..range.end * cols];
            out.iter_mut().zip(codes).for_each(|(out, code)| *out = code & 15);
            Ok::<(), ()>(())
        };
        let w = NibbleMatrix::read(pool, (rows, cols), read).unwrap();
        let products = |kernel: &dyn Kernel| {
            let mut y = vec![i32::MIN; tokens * rows];
            pool.strips(&mut y, rows, PAIR, |pair, mut y| {
                nibble_pair_dots(kernel, &w, pair, &xs, &mut y);
            });
            y
        };
        assert_eq!(products(&Scalar), products(&amx), "{rows}x{cols}, {tokens} tokens, nibbles");
    }
}

#[test]
fn tiles_are_released_after_a_product() {
    let Some((amx, emulated)) = kernel() else { return };
    let random = &mut Random(3);
    let w = random.matrix(40, 200, Scales::Tensor(1.0));
    check(&amx, &Pool::new(1), &w, &mut QuantBatch::new(20, 200), &random.floats(20 * 200));
    assert!(!emulated || !emulator::tiles_in_use());
}

#[test]
fn few_tokens_are_not_arranged_in_tiles() {
    let Some((amx, _)) = kernel() else { return };
    let (random, pool) = (&mut Random(4), &Pool::new(1));
    let mut xs = QuantBatch::new(32, 100);
    for tokens in [32, amx.min_tokens(), amx.min_tokens() - 1, 1, 20] {
        xs.quantize(&amx, pool, &random.floats(tokens * 100), 100);
        assert_eq!(xs.tiles().tiles_per_band() > 0, tokens >= amx.min_tokens());
    }
    xs.quantize(amx.vectors, pool, &random.floats(32 * 100), 100);
    assert_eq!(xs.tiles().tiles_per_band(), 0);
}

/// Keys and values of one head, and queries, of any size from 2⁻⁶⁰ to 2⁶⁰.
struct Attended {
    store: KvStore,
    pages: Vec<u32>,
    queries: Vec<f32>,
}

impl Attended {
    fn new(random: &mut Random, head_dim: usize, positions: usize, queries: usize) -> Self {
        let any_size = |random: &mut Random, len: usize| -> Vec<f32> {
            let power = random.below(3) as i32 * 60 - 60;
            let mut floats = random.floats(len);
            floats.iter_mut().step_by(3).for_each(|x| *x *= 2.0_f32.powi(power));
            floats
        };
        // The pages lie in reverse order.
        let pages: Vec<u32> = (0..positions.div_ceil(PAGE_LEN) as u32).rev().collect();
        let shape = KvShape { layers: 1, pages: pages.len(), heads: 1, head_dim };
        let mut store = KvStore::new(KvDtype::Bf16, shape);
        for position in 0..positions {
            let [key, value] = [0, 1].map(|_| any_size(random, head_dim));
            store.write(&Scalar, KvSlot::new(0, &pages, position), &key, &value);
        }
        Self { store, pages, queries: any_size(random, queries * head_dim) }
    }

    /// The bits of the parts of a chunk. Not a number is one, whatever its payload.
    fn parts(&self, kernel: &dyn Kernel, q: &Queries<'_>, chunk: usize) -> Vec<u32> {
        let kv = self.store.head(0, 0, &self.pages);
        let queries = q.heads * q.visible.len();
        let mut scratch = AttendScratch::new(queries, kv.head_dim());
        let mut parts = vec![f32::NAN; queries * part_len(kv.head_dim())];
        scratch.prepare(kernel, q, &kv);
        attend_parts(kernel, q, &kv, chunk, &mut scratch, &mut parts);
        parts.into_iter().map(|x| if x.is_nan() { u32::MAX } else { x.to_bits() }).collect()
    }
}

#[test]
fn attention_has_the_bits_of_the_scalar_kernel() {
    let Some((amx, _)) = kernel() else { return };
    assert!(amx.bf16, "CPUs with int8 tiles have bf16 tiles");
    let random = &mut Random(7);
    for (head_dim, rows, heads) in
        [(128, 4, 4), (64, 1, 1), (80, 3, 5), (40, 2, 20), (1, 16, 1), (96, 1, 17), (256, 5, 3)]
    {
        let positions = CHUNK + 70;
        let attended = Attended::new(random, head_dim, positions, rows * heads);
        for last in [rows, 31, 33, 200, CHUNK, CHUNK + 1, positions] {
            let visible: Vec<usize> = (0..rows).map(|row| (last + row).min(positions)).collect();
            for window in [None, Some(1), Some(50)] {
                let q = Queries {
                    data: &attended.queries,
                    stride: heads * head_dim,
                    heads,
                    visible: &visible,
                    window,
                    sinks: 0,
                    scale: 0.125,
                };
                for chunk in q.chunks() {
                    let expected = attended.parts(&Scalar, &q, chunk);
                    let what = || format!("{head_dim}, {rows}x{heads}, {last}, {window:?}");
                    assert_eq!(attended.parts(&amx, &q, chunk), expected, "{}", what());
                }
            }
        }
    }
}

#[test]
fn attention_passes_a_nan_on_to_those_who_see_it() {
    let Some((amx, _)) = kernel() else { return };
    let (head_dim, positions) = (64, 40);
    let mut attended = Attended::new(&mut Random(8), head_dim, positions, 2);
    let nan = vec![f32::NAN; head_dim];
    attended.store.write(&Scalar, KvSlot::new(0, &attended.pages, 36), &nan, &nan);
    let q = Queries {
        data: &attended.queries,
        stride: head_dim,
        heads: 1,
        visible: &[36, 37],
        window: None,
        sinks: 0,
        scale: 0.125,
    };
    let parts = attended.parts(&amx, &q, 0);
    assert_eq!(parts, attended.parts(&Scalar, &q, 0));
    let (before, after) = parts.split_at(part_len(head_dim));
    assert!(before.iter().all(|bits| f32::from_bits(*bits).is_finite()));
    assert!(after[..head_dim].iter().all(|bits| f32::from_bits(*bits).is_nan()));
}

#[test]
fn tiles_that_are_wrong_or_slow_are_not_chosen() {
    let Some((amx, emulated)) = kernel() else { return };
    assert!(trial::same_bits(&amx, amx.vectors));
    assert!(!amx.bf16 || trial::same_attention(&amx, amx.vectors));
    if emulated {
        assert!(!emulator::with_planted_error(|| trial::same_bits(&amx, amx.vectors)));
        assert!(!emulator::with_planted_error(|| trial::same_attention(&amx, amx.vectors)));
        assert!(!trial::is_faster(&amx, amx.vectors));
    }
}

fn decode_bytes(bytes: &[u8]) -> Option<(Instruction, usize)> {
    let mut bytes = bytes.iter();
    decode(|| *bytes.next().unwrap())
}

/// Encodings of the LLVM and kernel test suites, which were made from Intel's manual by others.
#[test]
fn known_encodings_are_decoded() {
    let at = |base, index, scale, displacement| Address { base, index, scale, displacement };
    for (bytes, expected) in [
        (&[0xc4, 0xe2, 0x78, 0x49, 0x04, 0xc8][..], Instruction::LoadConfig(at(0, Some(1), 3, 0))),
        (&[0xc4, 0xc2, 0x78, 0x49, 0x04, 0xc8], Instruction::LoadConfig(at(8, Some(1), 3, 0))),
        (&[0xc4, 0xe2, 0x78, 0x49, 0x07], Instruction::LoadConfig(at(7, None, 0, 0))),
        (&[0xc4, 0xe2, 0x78, 0x49, 0xc0], Instruction::Release),
        (&[0xc4, 0xe2, 0x7b, 0x49, 0xf0], Instruction::Zero { tile: 6 }),
        (&[0xc4, 0xe2, 0x5a, 0x5e, 0xf5], Instruction::Dot { sums: 6, a: 5, b: 4, signed: false }),
        (&[0xc4, 0xe2, 0x5b, 0x5e, 0xf5], Instruction::Dot { sums: 6, a: 5, b: 4, signed: true }),
        (&[0xc4, 0xe2, 0x72, 0x5e, 0xda], Instruction::Dot { sums: 3, a: 2, b: 1, signed: false }),
        (&[0xc4, 0xe2, 0x5a, 0x5c, 0xf5], Instruction::DotBf16 { sums: 6, a: 5, b: 4 }),
        (&[0xc4, 0xe2, 0x72, 0x5c, 0xda], Instruction::DotBf16 { sums: 3, a: 2, b: 1 }),
        (
            &[0xc4, 0xe2, 0x7b, 0x4b, 0x24, 0x06],
            Instruction::Load { tile: 4, from: at(6, Some(0), 0, 0) },
        ),
        (
            &[0xc4, 0xe2, 0x7a, 0x4b, 0x84, 0x01, 0x00, 0x0c, 0x00, 0x00],
            Instruction::Store { tile: 0, to: at(1, Some(0), 0, 0xc00) },
        ),
        (
            &[0xc4, 0x82, 0x7b, 0x4b, 0x6c, 0x25, 0xc0],
            Instruction::Load { tile: 5, from: at(13, Some(12), 0, -64) },
        ),
    ] {
        assert_eq!(decode_bytes(bytes), Some((expected, bytes.len())), "{bytes:02x?}");
    }
    // tdpbusd, tdpbuud, sttilecfg, tileloaddt1, tileloadd without SIB, vpdpbusd
    for other in [
        [0xc4, 0xe2, 0x59, 0x5e, 0xf5],
        [0xc4, 0xe2, 0x58, 0x5e, 0xf5],
        [0xc4, 0xe2, 0x79, 0x49, 0x07],
        [0xc4, 0xe2, 0x79, 0x4b, 0x06],
        [0xc4, 0xe2, 0x7b, 0x4b, 0x06],
        [0xc4, 0xe2, 0x59, 0x50, 0xf5],
    ] {
        assert_eq!(decode_bytes(&other), None, "{other:02x?}");
    }
}

/// A configuration of full tiles, changed a little.
fn configured(change: impl FnOnce(&mut [u8; 64])) -> Result<TileFile, Fault> {
    let mut config = [0; 64];
    config[0] = 1;
    (0..8).for_each(|tile| config[16 + 2 * tile] = 64);
    config[48..56].fill(16);
    change(&mut config);
    let mut file = TileFile::RELEASED;
    let mut registers = [0; 16];
    registers[3] = config.as_ptr().expose_provenance() as u64;
    let at = Address { base: 3, index: None, scale: 0, displacement: 0 };
    // SAFETY: reads the 64 bytes of `config`.
    unsafe { file.execute(Instruction::LoadConfig(at), &registers)? };
    Ok(file)
}

#[test]
fn bad_configurations_are_refused() {
    assert!(configured(|_| {}).is_ok_and(|file| file.is_configured()));
    assert!(configured(|config| config[0] = 0).is_ok_and(|file| !file.is_configured()));
    let changes: [(usize, u8); 7] = [(0, 2), (2, 1), (32, 1), (56, 1), (18, 65), (49, 17), (50, 0)];
    for (place, value) in changes {
        assert!(configured(|config| config[place] = value).is_err(), "{value} at {place}");
    }
}

#[test]
fn products_of_tiles_that_do_not_fit_are_refused() {
    let dot = |file: &mut TileFile, sums, a, b| {
        let instruction = Instruction::Dot { sums, a, b, signed: false };
        // SAFETY: a product touches no memory.
        unsafe { file.execute(instruction, &[0; 16]) }
    };
    let fits = |change: fn(&mut [u8; 64])| dot(&mut configured(change).unwrap(), 0, 1, 2).is_ok();
    assert!(fits(|_| {}));
    assert!(fits(|config| config[48..50].fill(5)), "fewer tokens");
    assert!(fits(|config| (config[18], config[50]) = (32, 8)), "fewer columns");
    assert!(!fits(|config| config[48] = 5), "rows of sums");
    assert!(!fits(|config| config[18] = 32), "columns of activations");
    assert!(!fits(|config| config[20] = 32), "columns of weights");
    assert!(!fits(|config| config[20] = 62), "half a double word");
    assert!(!fits(|config| (config[20], config[50]) = (0, 0)), "a tile not configured");
    for (sums, a, b) in [(0, 0, 1), (0, 1, 0), (1, 2, 2)] {
        assert!(dot(&mut configured(|_| {}).unwrap(), sums, a, b).is_err());
    }
    assert!(dot(&mut { TileFile::RELEASED }, 0, 1, 2).is_err(), "released");
}
