//! The integer dot product instructions of 64-bit Arm.

use std::arch::{asm, is_aarch64_feature_detected};

use crate::arch::peak::{DotInstruction, Rounds};

/// Independent sums in a round, enough for four instructions per cycle with a latency of up to four.
const SUMS: u64 = 16;

pub(in crate::arch) fn dot_instructions() -> impl Iterator<Item = DotInstruction> {
    let list: [(bool, &str, u64, Rounds); 3] = [
        (true, "smlal", 8, smlal),
        (is_aarch64_feature_detected!("dotprod"), "sdot", 16, sdot),
        (is_aarch64_feature_detected!("i8mm"), "smmla", 32, smmla),
    ];
    list.into_iter().filter(|(has_it, ..)| *has_it).map(|(_, name, products, rounds)| {
        DotInstruction { name, products: SUMS * products, rounds }
    })
}

/// Defines a function that runs an instruction for each of sixteen sums, `\i` being the number of the
/// sum. The values in registers do not affect the time.
macro_rules! rounds_of {
    ($name:ident: $extension:literal, $instruction:literal) => {
        /// # Safety
        ///
        /// The CPU has this instruction.
        unsafe fn $name(rounds: u64) {
            // SAFETY: the caller guarantees the instruction; it accesses no memory, and the registers it
            // changes are named.
            unsafe {
                asm!(
                    $extension,
                    "2:",
                    "subs {rounds}, {rounds}, #1",
                    "b.lo 3f",
                    ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23",
                    $instruction,
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

rounds_of!(smlal: "", "smlal v\\i\\().8h, v24.8b, v25.8b");
rounds_of!(sdot: ".arch_extension dotprod", "sdot v\\i\\().4s, v24.16b, v25.16b");
rounds_of!(smmla: ".arch_extension i8mm", "smmla v\\i\\().4s, v24.16b, v25.16b");
