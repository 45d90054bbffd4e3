//! What is asked of a database: `Mix`, the shares of its operations, in CAMAL's order and letters.
//!
//! v is a lookup of an absent key, r of a key that is there, q a scan, w a write. A mix is read
//! from text, as shares or percentages.
//!
//! What must hold: shares are 0 to 1 and together 1. `new` sees to that: a sum within 0.1 % of 1 or
//! 100 is rounding; any other is refused with the reason. Fields that are filled in by hand are not
//! checked: `cost::choose` has weights there that are no shares.
//!
//! Callers: everything that prices or asks for a workload: `cost`, `sight`, `world`, the agents,
//! `solera cost`, and `solera-bench`.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// How far the shares' sum may lie from 1 to be taken for rounding.
const SUM_TOLERANCE: f64 = 1e-3;

/// Shares of operations, in CAMAL's order and letters. Each 0 to 1; together 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mix {
    /// v: lookups of keys that are not there.
    pub absent: f64,
    /// r: lookups of keys that are there.
    pub found: f64,
    /// q: scans.
    pub scan: f64,
    /// w: writes.
    pub write: f64,
}

impl Mix {
    /// The mix of these shares, which must be numbers of at least 0. A sum within 0.1 % of 1 or of
    /// 100 (percent) is taken for that. Any other is refused: a user that forgot an operation
    /// should hear of it.
    pub fn new(shares: [f64; 4]) -> Result<Mix, String> {
        for (share, name) in shares.into_iter().zip(["v", "r", "q", "w"]) {
            if !(share.is_finite() && share >= 0.0) {
                return Err(format!("{name} is {share}; a share is a number of at least 0"));
            }
        }
        let sum: f64 = shares.iter().sum();
        if ![1.0, 100.0].into_iter().any(|whole| (sum / whole - 1.0).abs() <= SUM_TOLERANCE) {
            return Err(format!("v + r + q + w is {sum}; it must be 1, or 100 for percentages"));
        }
        let [absent, found, scan, write] = shares.map(|share| share / sum);
        Ok(Mix { absent, found, scan, write })
    }

    /// The shares in CAMAL's order: v, r, q, w.
    pub fn shares(&self) -> [f64; 4] {
        [self.absent, self.found, self.scan, self.write]
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Mix, String> {
        let shares: Vec<f64> = text
            .split(',')
            .map(|share| share.trim().parse().map_err(|_| format!("{share:?} is not a number")))
            .collect::<Result<_, _>>()?;
        let shares: [f64; 4] = shares
            .try_into()
            .map_err(|shares: Vec<f64>| format!("{} shares; v,r,q,w are four", shares.len()))?;
        Mix::new(shares)
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [v, r, q, w] = self.shares().map(|share| (share * 1000.0).round() / 10.0);
        write!(f, "v={v} r={r} q={q} w={w} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_percentages_are_read() {
        let mix: Mix = "0.25, 0.25,0.25,0.25".parse().unwrap();
        assert_eq!(mix.shares(), [0.25; 4]);
        assert_eq!("97,1,1,1".parse::<Mix>().unwrap().shares(), [0.97, 0.01, 0.01, 0.01]);
        // CAMAL's own thirds: 33 + 33 + 33 + 1.
        let third = "33,33,33,1".parse::<Mix>().unwrap();
        assert_eq!(third.to_string(), "v=33 r=33 q=33 w=1 %");
    }

    #[test]
    fn what_is_no_mix_is_refused_with_the_reason() {
        for (wrong, says) in [
            ("", "not a number"),
            ("1,2,3", "four"),
            ("0.5,0.5,0,0,0", "four"),
            ("NaN,0,0,1", "v is NaN"),
            ("inf,0,0,1", "v is inf"),
            ("-0.5,0.5,0.5,0.5", "v is -0.5"),
            ("0.5,0.5,0.5,0.5", "is 2"),
            ("0,0,0,0", "is 0"),
            ("a,b,c,d", "not a number"),
        ] {
            let error = wrong.parse::<Mix>().unwrap_err();
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }
}
