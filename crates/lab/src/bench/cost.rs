//! The cost of a million tokens.

use serde::Serialize;

/// Utilizations that costs are reported for.
const UTILIZATIONS: [f64; 3] = [1.0, 0.7, 0.5];

/// The cost of a million tokens at some utilization.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Cost {
    pub(super) what: String,
    pub(super) tok_s: f64,
    /// Fraction of the time the machine is busy.
    #[serde(rename = "use")]
    pub(super) used: f64,
    pub(super) usd_per_million: f64,
}

pub(super) fn costs(what: &str, tok_s: f64, usd_per_hour: f64) -> impl Iterator<Item = Cost> {
    UTILIZATIONS.into_iter().map(move |used| Cost {
        what: what.to_owned(),
        tok_s,
        used,
        usd_per_million: usd_per_hour / 3600.0 / (tok_s * used) * 1e6,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_the_utilization_is_twice_the_cost() {
        // 0.36 USD per hour is 100 USD per million seconds.
        let costs: Vec<_> =
            costs("decode", 10.0, 0.36).map(|c| (c.used, c.usd_per_million)).collect();
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(
            close(costs[0].1, 10.0) && close(costs[1].1, 10.0 / 0.7) && close(costs[2].1, 20.0)
        );
        assert_eq!(costs.iter().map(|c| c.0).collect::<Vec<_>>(), [1.0, 0.7, 0.5]);
    }
}
