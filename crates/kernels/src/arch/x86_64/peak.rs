//! The integer dot product instructions of x86-64.

use std::arch::asm;

#[cfg(target_os = "linux")]
use crate::arch::amx::Amx;
use crate::arch::peak::{DotInstruction, Rounds};

/// Independent sums in a round, enough for two instructions per cycle with a latency of up to six.
const SUMS: u64 = 12;

pub(in crate::arch) fn dot_instructions() -> impl Iterator<Item = DotInstruction> {
    let has_vnni = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni");
    let list: [(bool, &str, u64, Rounds); 4] = [
        (is_x86_feature_detected!("avx2"), "vpmaddubsw + vpaddw, 256 bits", 32, maddubs_256),
        (is_x86_feature_detected!("avx512bw"), "vpmaddubsw + vpaddw, 512 bits", 64, maddubs_512),
        (is_x86_feature_detected!("avxvnni"), "vpdpbusd, 256 bits", 32, dpbusd_256),
        (has_vnni, "vpdpbusd, 512 bits", 64, dpbusd_512),
    ];
    let vectors =
        list.into_iter().filter(|(has_it, ..)| *has_it).map(|(_, name, products, rounds)| {
            DotInstruction { name, products: SUMS * products, rounds }
        });
    vectors.chain(tiles())
}

/// Returns AMX tiles if the CPU has them and the system permits their use, on Linux only.
fn tiles() -> Option<DotInstruction> {
    #[cfg(target_os = "linux")]
    return Amx::detect().ok().map(|_| DotInstruction {
        name: "tdpbssd, tiles of 1 KiB",
        products: Amx::PRODUCTS,
        rounds: Amx::multiply_rounds,
    });
    #[cfg(not(target_os = "linux"))]
    return None;
}

/// Defines a function that runs some instructions for each of twelve sums, `\i` being the number of the
/// sum. The values in registers do not affect the time.
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

// The products of pairs are added to sums by a separate instruction.
rounds_of!(maddubs_256: "vpmaddubsw ymm12, ymm13, ymm14", "vpaddw ymm\\i, ymm\\i, ymm12");
rounds_of!(maddubs_512: "vpmaddubsw zmm12, zmm13, zmm14", "vpaddw zmm\\i, zmm\\i, zmm12");
rounds_of!(dpbusd_256: "{{vex}} vpdpbusd ymm\\i, ymm13, ymm14");
rounds_of!(dpbusd_512: "vpdpbusd zmm\\i, zmm13, zmm14");
