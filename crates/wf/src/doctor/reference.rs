//! Compares the demo model with known logits, which have the same bits on every machine.

use wf_engine::{OpenError, RunOptions, load_model};
use wf_lab::eval::score;
use wf_model::{HeadMode, Isa};

use super::Finding;
use crate::cpu::cores;
use crate::demo;

/// "Once upon a time, there was a little", with the BOS token.
const IDS: [u32; 10] = [0, 596, 656, 262, 541, 15, 409, 298, 262, 579];

/// The likeliest next token, " girl", according to `transformers` in float64.
const BEST: u32 = 572;

/// Hash of the bits of all logits of all positions: numerics version 3.
const BITS: u64 = 0x3c21_4a82_dd73_be3d;

pub(super) fn checks() -> Vec<Finding> {
    let check = |isa: Isa| Finding::check(format!("demo model, {isa}"), compare(isa));
    wf_kernels::supported().map(|kernel| check(kernel.isa())).collect()
}

fn compare(isa: Isa) -> Result<String, String> {
    let (best, bits) = run(isa).map_err(|error| error.to_string())?;
    if best != BEST {
        return Err(format!("the likeliest next token is {best}: must be {BEST}"));
    }
    if bits != BITS {
        return Err(format!("logits have hash {bits:016x}: must be {BITS:016x}"));
    }
    Ok(format!("logits as expected, hash {bits:016x}"))
}

/// Returns the likeliest next token, and a hash of all logits.
fn run(isa: Isa) -> Result<(u32, u64), anyhow::Error> {
    let options = RunOptions {
        isa: Some(isa),
        threads: cores(),
        context_len: Some(64),
        head: HeadMode::Full,
        ..RunOptions::default()
    };
    let file = demo::source().open(&options.open).map_err(OpenError::from)?;
    let mut model = load_model(&file, &options, &mut |_| {})?;
    let (mut best, mut hash) = (0, 0xcbf2_9ce4_8422_2325_u64);
    score(&mut model, &IDS, |_, logits| {
        best = 0;
        for (token, value) in logits.iter().enumerate() {
            hash = (hash ^ u64::from(value.to_bits())).wrapping_mul(0x0100_0000_01b3);
            if *value > logits[best] {
                best = token;
            }
        }
    })?;
    Ok((best as u32, hash))
}
