//! The demo model's known answers: close to the reference's, and the same bits everywhere.

use wf_engine::{OpenError, RunOptions, load_model};
use wf_model::{HeadMode, Isa};

use super::Finding;
use crate::demo;
use crate::eval::score;
use crate::open::cores;

/// "Once upon a time, there was a little", with the begin token.
const IDS: [u32; 10] = [0, 596, 656, 262, 541, 15, 409, 298, 262, 579];

/// What `transformers` scores highest next, in float64: " girl".
const BEST: u32 = 572;

/// Hash of the bits of every score of every position: numerics version 2.
const BITS: u64 = 0x2063_a814_9914_7c40;

pub(super) fn checks() -> Vec<Finding> {
    let check = |isa: Isa| Finding::check(format!("demo model, {isa}"), compare(isa));
    wf_kernels::supported().map(|kernel| check(kernel.isa())).collect()
}

fn compare(isa: Isa) -> Result<String, String> {
    let (best, bits) = run(isa).map_err(|error| error.to_string())?;
    if best != BEST {
        return Err(format!("the best next token is {best}, the reference's is {BEST}"));
    }
    if bits != BITS {
        return Err(format!("scores have hash {bits:016x}, every machine should have {BITS:016x}"));
    }
    Ok(format!("scores equal to the record, hash {bits:016x}"))
}

/// The best next token, and a hash of all scores.
fn run(isa: Isa) -> Result<(u32, u64), anyhow::Error> {
    let options = RunOptions {
        isa: Some(isa),
        threads: cores(),
        context_len: Some(64),
        head: HeadMode::Full,
        ..RunOptions::default()
    };
    let file = demo::SOURCE.open(&options.open).map_err(OpenError::from)?;
    let mut model = load_model(&file, &options, &mut |_| {})?;
    let (mut best, mut hash) = (0, 0xcbf2_9ce4_8422_2325_u64);
    score(&mut model, &IDS, |_, scores| {
        best = 0;
        for (token, value) in scores.iter().enumerate() {
            hash = (hash ^ u64::from(value.to_bits())).wrapping_mul(0x0100_0000_01b3);
            if *value > scores[best] {
                best = token;
            }
        }
    })?;
    Ok((best as u32, hash))
}
