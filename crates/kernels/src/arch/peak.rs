//! What this CPU can multiply at most: its instructions for products of small integers, one after
//! the other on registers, without a load or a result that has to be waited for.
//!
//! No kernel reaches it, because weights have to be unpacked. It is what a share of the machine is a
//! share of.

use std::hint::black_box;

/// A way of this CPU to multiply int8 numbers and add the products up.
#[derive(Clone, Copy)]
pub struct DotInstruction {
    pub(super) name: &'static str,
    /// Products in a round.
    pub(super) products: u64,
    pub(super) rounds: Rounds,
}

/// Runs that many rounds, on a CPU that has the instruction.
pub(super) type Rounds = unsafe fn(u64);

impl DotInstruction {
    /// What it is called.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Multiplies `rounds` times as much as it takes to keep the CPU busy, and returns how many
    /// products that were.
    pub fn run(&self, rounds: u64) -> u64 {
        // SAFETY: `dot_instructions` gives out only what this CPU has.
        unsafe { (self.rounds)(rounds) };
        self.products * rounds
    }
}

/// All that this CPU has.
pub fn dot_instructions() -> Vec<DotInstruction> {
    let mut found = vec![DotInstruction { name: "plain", products: 32, rounds: plain }];
    if cfg!(miri) {
        // Miri knows no assembly.
        return found;
    }
    #[cfg(target_arch = "x86_64")]
    found.extend(super::x86_64::dot_instructions());
    #[cfg(target_arch = "aarch64")]
    found.extend(super::aarch64::dot_instructions());
    found
}

/// What a compiler makes of it for any CPU.
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
