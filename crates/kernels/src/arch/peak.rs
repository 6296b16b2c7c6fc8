//! The peak integer throughput of this CPU: its instructions for products of small integers, on
//! registers, without loads or dependencies.
//!
//! No kernel reaches it, because weights have to be unpacked. Utilization is relative to it.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use std::arch::asm;
use std::hint::black_box;

/// An instruction that multiplies int8 numbers and sums the products.
#[derive(Clone, Copy)]
pub struct DotInstruction {
    pub(super) name: &'static str,
    /// Products in a round.
    pub(super) products: u64,
    pub(super) rounds: Rounds,
}

/// Runs a number of rounds on a CPU that has the instruction.
pub(super) type Rounds = unsafe fn(u64);

impl DotInstruction {
    /// Returns the name of the instruction.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Runs `rounds` rounds of independent instructions and returns the number of products.
    pub fn run(&self, rounds: u64) -> u64 {
        // SAFETY: `dot_instructions` returns only instructions of this CPU.
        unsafe { (self.rounds)(rounds) };
        self.products * rounds
    }
}

/// Returns the instructions of this CPU.
pub fn dot_instructions() -> Vec<DotInstruction> {
    let mut found = vec![DotInstruction { name: "plain", products: 32, rounds: plain }];
    if cfg!(miri) {
        // Miri does not support assembly.
        return found;
    }
    let vectors = vector_instructions().into_iter().filter(|(has_it, ..)| *has_it);
    found.extend(vectors.map(|(_, name, products, rounds)| DotInstruction {
        name,
        products: SUMS * products,
        rounds,
    }));
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    if super::amx::Amx::detect().is_ok() {
        found.push(DotInstruction {
            name: "tdpbsud, tiles of 1 KiB",
            products: super::amx::Amx::PRODUCTS,
            rounds: super::amx::Amx::multiply_rounds,
        });
    }
    found
}

/// Instructions on registers: whether this CPU has them, their name, products and code.
type Vectors<const N: usize> = [(bool, &'static str, u64, Rounds); N];

/// Independent sums in a round, enough for two instructions per cycle with a latency of up to six.
#[cfg(target_arch = "x86_64")]
const SUMS: u64 = 12;

#[cfg(target_arch = "x86_64")]
fn vector_instructions() -> Vectors<4> {
    let has_vnni = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni");
    [
        (is_x86_feature_detected!("avx2"), "vpmaddubsw + vpaddw, 256 bits", 32, maddubs_256),
        (is_x86_feature_detected!("avx512bw"), "vpmaddubsw + vpaddw, 512 bits", 64, maddubs_512),
        (is_x86_feature_detected!("avxvnni"), "vpdpbusd, 256 bits", 32, dpbusd_256),
        (has_vnni, "vpdpbusd, 512 bits", 64, dpbusd_512),
    ]
}

/// Independent sums in a round, enough for four instructions per cycle with a latency of up to four.
#[cfg(target_arch = "aarch64")]
const SUMS: u64 = 16;

#[cfg(target_arch = "aarch64")]
fn vector_instructions() -> Vectors<3> {
    use std::arch::is_aarch64_feature_detected;
    [
        (true, "smlal", 8, smlal),
        (is_aarch64_feature_detected!("dotprod"), "sdot", 16, sdot),
        (is_aarch64_feature_detected!("i8mm"), "smmla", 32, smmla),
    ]
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const SUMS: u64 = 1;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn vector_instructions() -> Vectors<0> {
    []
}

/// Defines a function that runs some instructions for each sum, `\i` being the number of the sum. The
/// values in registers do not affect the time.
#[cfg(target_arch = "x86_64")]
macro_rules! rounds_of {
    ($name:ident: $($instruction:literal),+) => {
        /// # Safety
        ///
        /// The CPU has these instructions.
        unsafe fn $name(rounds: u64) {
            // SAFETY: the caller guarantees the instructions; they access no memory, and the registers
            // they change are named.
            unsafe {
                asm!(
                    "2:",
                    "sub {rounds}, 1",
                    "jb 3f",
                    ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11",
                    $($instruction,)+
                    ".endr",
                    "jmp 2b",
                    "3:",
                    "vzeroupper",
                    rounds = inout(reg) rounds => _,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                    options(nomem, nostack)
                );
            }
        }
    };
}

/// As for x86-64, with the extension that the assembler has to know.
#[cfg(target_arch = "aarch64")]
macro_rules! rounds_of {
    ($name:ident: $($instruction:literal),+) => {
        /// # Safety
        ///
        /// The CPU has this instruction.
        unsafe fn $name(rounds: u64) {
            // SAFETY: as above.
            unsafe {
                asm!(
                    ".arch_extension dotprod",
                    ".arch_extension i8mm",
                    "2:",
                    "subs {rounds}, {rounds}, #1",
                    "b.lo 3f",
                    ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23",
                    $($instruction,)+
                    ".endr",
                    "b 2b",
                    "3:",
                    rounds = inout(reg) rounds => _,
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _,
                    out("v4") _, out("v5") _, out("v6") _, out("v7") _,
                    out("v16") _, out("v17") _, out("v18") _, out("v19") _,
                    out("v20") _, out("v21") _, out("v22") _, out("v23") _,
                    options(nomem, nostack)
                );
            }
        }
    };
}

// The products of pairs are added to sums by a separate instruction.
#[cfg(target_arch = "x86_64")]
rounds_of!(maddubs_256: "vpmaddubsw ymm12, ymm13, ymm14", "vpaddw ymm\\i, ymm\\i, ymm12");
#[cfg(target_arch = "x86_64")]
rounds_of!(maddubs_512: "vpmaddubsw zmm12, zmm13, zmm14", "vpaddw zmm\\i, zmm\\i, zmm12");
#[cfg(target_arch = "x86_64")]
rounds_of!(dpbusd_256: "{{vex}} vpdpbusd ymm\\i, ymm13, ymm14");
#[cfg(target_arch = "x86_64")]
rounds_of!(dpbusd_512: "vpdpbusd zmm\\i, zmm13, zmm14");
#[cfg(target_arch = "aarch64")]
rounds_of!(smlal: "smlal v\\i\\().8h, v24.8b, v25.8b");
#[cfg(target_arch = "aarch64")]
rounds_of!(sdot: "sdot v\\i\\().4s, v24.16b, v25.16b");
#[cfg(target_arch = "aarch64")]
rounds_of!(smmla: "smmla v\\i\\().4s, v24.16b, v25.16b");

/// Multiplies with code that the compiler vectorises for any CPU.
fn plain(rounds: u64) {
    let (a, b) = ([3_i8; 32], [5_i8; 32]);
    let mut sums = [0_i32; 32];
    for _ in 0..rounds {
        for (sum, (a, b)) in sums.iter_mut().zip(black_box(&a).iter().zip(black_box(&b))) {
            *sum = sum.wrapping_add(i32::from(*a) * i32::from(*b));
        }
    }
    black_box(sums);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_runs_and_says_how_much_it_did() {
        let found = dot_instructions();
        assert_eq!(found[0].name(), "plain");
        for instruction in found {
            let name = instruction.name();
            assert_eq!(instruction.run(0), 0, "{name}");
            assert_eq!(instruction.run(1000), 10 * instruction.run(100), "{name}");
        }
    }
}
