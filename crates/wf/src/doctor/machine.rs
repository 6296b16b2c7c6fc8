//! Properties of the machine, which affect speed but not results.

use super::Finding;
use crate::cpu::cores;
use crate::memory;
use crate::version::version;

pub(super) fn facts() -> Vec<Finding> {
    let names: Vec<_> = wf_kernels::supported().map(|kernel| kernel.isa().to_string()).collect();
    let mut facts = vec![
        Finding::fact("version", version()),
        Finding::fact("system", format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)),
        Finding::fact("CPU features", cpu_features().join(" ")),
        Finding::fact("kernels", names.join(", ")),
        Finding::fact("kernel in use", wf_kernels::best().isa().to_string()),
        Finding::fact("threads", cores().to_string()),
    ];
    facts.extend(total_and_free().map(|memory| Finding::fact("memory", memory)));
    facts
}

fn cpu_features() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        macro_rules! found {
            ($($name:tt)*) => {
                [$(($name, std::arch::is_x86_feature_detected!($name))),*]
            };
        }
        let features = found!["avx" "avx2" "fma" "f16c" "avx512f" "avx512bw" "avx512vl" "avx512dq"
            "avx512vnni" "avx512vbmi" "avxvnni" "gfni"];
        features.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
    }
    #[cfg(target_arch = "aarch64")]
    {
        macro_rules! found {
            ($($name:tt)*) => {
                [$(($name, std::arch::is_aarch64_feature_detected!($name))),*]
            };
        }
        let features = found!["neon" "dotprod" "i8mm" "sve"];
        features.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    Vec::new()
}

/// Returns total and available memory, on Linux.
fn total_and_free() -> Option<String> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let gigabytes = |name| Some(memory::field(&meminfo, name)? as f64 / 1e9);
    let (total, free) = (gigabytes("MemTotal:")?, gigabytes("MemAvailable:")?);
    Some(format!("{total:.1} GB, {free:.1} GB available"))
}
