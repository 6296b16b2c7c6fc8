//! The peak integer throughput of this CPU: its instructions for products of small integers, on
//! registers, without loads or dependencies.
//!
//! No kernel reaches it, because weights have to be unpacked. Utilization is relative to it.

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
    #[cfg(target_arch = "x86_64")]
    found.extend(super::x86_64::dot_instructions());
    #[cfg(target_arch = "aarch64")]
    found.extend(super::aarch64::dot_instructions());
    found
}

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
