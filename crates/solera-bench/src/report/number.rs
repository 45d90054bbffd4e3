//! Numbers for readers, a few significant digits and a unit: `Quantity`, `Scale`, `digits`,
//! `count`, `bytes`, `date`.
//!
//! A `Quantity` chooses one `Scale`, a divisor and a unit, for a whole column by its largest
//! number. `digits` writes the number without a unit.
//!
//! What must hold: `digits` shows at most four decimals, and no scientific notation. From 0.1 to
//! below 10,000 that is three or four digits.
//!
//! Callers: `report`, `paper`, `solera-bench-peers`, and in `solera-cli` `output` (dates) and
//! `explain`.

/// What a column of numbers counts, so that one scale can be chosen for all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantity {
    /// Something per second; the text says what.
    Rate(&'static str),
    /// Time, given in nanoseconds.
    Nanoseconds,
    /// Bytes, to be shown in powers of 1024.
    Bytes,
    /// Anything else, in this unit.
    Plain(&'static str),
}

/// A power of ten or of 1024 and the unit that it makes.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// What a number is divided by.
    pub divisor: f64,
    /// The unit of the quotient.
    pub unit: String,
}

impl Quantity {
    /// The scale at which `largest` is easy to read.
    pub fn scale(self, largest: f64) -> Scale {
        let pick = |steps: &[(f64, &str)]| {
            let fitting = steps.iter().rev().find(|(divisor, _)| largest >= *divisor).unwrap_or(&steps[0]);
            (fitting.0, fitting.1.to_owned())
        };
        let (divisor, unit) = match self {
            Quantity::Rate(what) => {
                let (divisor, prefix) = pick(&[(1.0, ""), (1e3, "K "), (1e6, "M ")]);
                (divisor, format!("{prefix}{what}/s"))
            }
            Quantity::Nanoseconds => pick(&[(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")]),
            Quantity::Bytes => {
                let steps = [(1.0, "B"), (1024.0, "KiB"), (1_048_576.0, "MiB"), (1_073_741_824.0, "GiB")];
                pick(&steps)
            }
            Quantity::Plain(unit) => (1.0, unit.to_owned()),
        };
        Scale { divisor, unit }
    }
}

/// Three to four significant digits, never in scientific notation: `0.0123`, `1.23`, `12.3`, `123`,
/// `1234`.
pub fn digits(value: f64) -> String {
    let magnitude = value.abs();
    let decimals = match magnitude {
        0.0 => 0,
        m if m < 0.1 => 4,
        m if m < 1.0 => 3,
        m if m < 10.0 => 2,
        m if m < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// A count with thousands set apart: `2,000,000`.
pub fn count(value: u64) -> String {
    let plain = value.to_string();
    let mut out = String::new();
    for (i, digit) in plain.chars().enumerate() {
        if i > 0 && (plain.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Bytes with a unit: `137 MiB`.
pub fn bytes(value: u64) -> String {
    let scale = Quantity::Bytes.scale(value as f64);
    format!("{} {}", digits(value as f64 / scale.divisor), scale.unit)
}

/// A UTC date and time, from seconds since 1970: `2026-11-21 08:38:05 UTC`.
pub fn date(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    // Howard Hinnant's civil_from_days, for dates after 1970.
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_fit_the_number() {
        let unit = |quantity: Quantity, largest: f64| quantity.scale(largest).unit;
        assert_eq!(unit(Quantity::Rate("reads"), 1.4e6), "M reads/s");
        assert_eq!(unit(Quantity::Rate("reads"), 999.0), "reads/s");
        assert_eq!(unit(Quantity::Nanoseconds, 999.0), "ns");
        assert_eq!(unit(Quantity::Nanoseconds, 0.2), "ns");
        assert_eq!(unit(Quantity::Nanoseconds, 1500.0), "µs");
        assert_eq!(bytes(144_000_000), "137 MiB");
        assert_eq!(bytes(0), "0 B");
    }

    #[test]
    fn digits_are_few_but_not_none() {
        let shown = [0.0, 0.01234, 0.1234, 1.234, 12.34, 123.4, 1234.5].map(digits);
        assert_eq!(shown, ["0", "0.0123", "0.123", "1.23", "12.3", "123", "1234"]);
        assert_eq!([0, 12, 1234, 2_000_000].map(count), ["0", "12", "1,234", "2,000,000"]);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_704_067_199), "2023-12-31 23:59:59 UTC");
    }
}
