//! Numbers as people read and write them.
//!
//! It prints counts, sizes and times, and works out percentages. It reads whole numbers, sizes,
//! counts, times, periods of looks, and times to live from the command line.
//!
//! What must hold:
//! * A printed size is decimal: `1.0 KB` is 1000 bytes. A size that is read is binary: `1KB` and
//!   `1K` are 1024 bytes.
//! * An argument that is wrong is refused with a text that says what is right.
//!
//! Callers: the commands and their arguments, `target`, and `record` for its messages.

use solera::control::PUBLISH_EVERY_MIN;
use std::time::Duration;

/// The shortest and the longest time between two looks at a database.
const PERIOD_MIN: Duration = PUBLISH_EVERY_MIN;
const PERIOD_MAX: Duration = Duration::from_secs(86_400);

/// `188,359`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 run`, `2,000 runs`.
pub(crate) fn plural(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// `11.2 MB`: decimal units.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut scaled = bytes as f64 / 1000.0;
    let mut unit = 0;
    // 999.95 and above would print as 1000.0.
    while scaled >= 999.95 && unit + 1 < UNITS.len() {
        scaled /= 1000.0;
        unit += 1;
    }
    format!("{scaled:.1} {}", UNITS[unit])
}

/// `0.61 s`, `12 ms`, `2 min 5 s`.
pub(crate) fn seconds(seconds: f64) -> String {
    if seconds < 0.1 {
        format!("{:.1} ms", seconds * 1e3)
    } else if seconds < 100.0 {
        format!("{seconds:.2} s")
    } else {
        let whole = seconds.round() as u64;
        format!("{} min {} s", whole / 60, whole % 60)
    }
}

/// `part` of `whole` in percent; 0 when there is no whole.
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// A size on the command line: a number of bytes, or a number and K, M, G or T (powers of 1024).
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || "a size is a whole number of bytes, or one with K, M, G or T, such as 64M".to_owned();
    let upper = text.to_ascii_uppercase();
    let short = upper.strip_suffix("IB").or(upper.strip_suffix('B')).unwrap_or(&upper);
    let (digits, shift) = match short.as_bytes().last() {
        Some(b'K') => (&short[..short.len() - 1], 10),
        Some(b'M') => (&short[..short.len() - 1], 20),
        Some(b'G') => (&short[..short.len() - 1], 30),
        Some(b'T') => (&short[..short.len() - 1], 40),
        _ => (short, 0),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

/// A reader of whole numbers on the command line, of at least `min` and at most `max`.
pub(crate) fn whole<T: TryFrom<u64> + 'static>(
    min: u64,
    max: u64,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse::<u64>();
        let legal = number.as_ref().ok().filter(|number| (min..=max).contains(number));
        legal.and_then(|&number| T::try_from(number).ok()).ok_or_else(|| match (number.is_ok(), max) {
            (_, u64::MAX) => format!("a whole number of at least {min}"),
            (true, _) => format!("{text} is not in {min}..={max}"),
            (false, _) => format!("a whole number from {min} to {max}"),
        })
    }
}

/// A number of entries on the command line.
pub(crate) fn parse_count(text: &str) -> Result<u64, String> {
    text.replace([',', '_'], "").parse().map_err(|_| "a whole number of at least 0, such as 100".to_owned())
}

/// A time on the command line: a number and ms, s, m (or min), h or d.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || "a time is a number with ms, s, m, h or d, such as 500ms or 90s".to_owned();
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit_at);
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    // A whole number stays exact.
    if let Ok(whole) = number.parse::<u64>() {
        let ms =
            whole.checked_mul(unit_ms).ok_or_else(|| format!("{text} is longer than 2^64 milliseconds"))?;
        return Ok(Duration::from_millis(ms));
    }
    let number: f64 = number.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * unit_ms as f64 / 1e3).map_err(|_| wrong())
}

/// The time between two looks at a database.
pub(crate) fn parse_period(text: &str) -> Result<Duration, String> {
    let period = parse_duration(text)?;
    match (PERIOD_MIN..=PERIOD_MAX).contains(&period) {
        true => Ok(period),
        false => Err(format!("{text} is not between {PERIOD_MIN:?} and {PERIOD_MAX:?}")),
    }
}

/// The engine counts milliseconds.
const TTL_MIN: Duration = Duration::from_millis(1);

/// How long an entry is there.
pub(crate) fn parse_ttl(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        ttl if ttl < TTL_MIN => {
            Err("an entry that expires within a millisecond is never seen; leave it out, or delete the key"
                .to_owned())
        }
        ttl => Ok(ttl),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_commas_between_thousands() {
        assert_eq!(
            [0, 7, 999, 1000, 188_359, 1_000_000].map(count),
            ["0", "7", "999", "1,000", "188,359", "1,000,000"]
        );
    }

    #[test]
    fn moments_have_their_date() {
        for (unix_s, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (951_868_800, "2000-03-01 00:00:00 UTC"),
            (1_700_000_000, "2023-11-14 22:13:20 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(crate::output::utc(unix_s * 1000 + 999), text);
        }
    }

    #[test]
    fn sizes_have_one_decimal_and_the_right_unit() {
        assert_eq!(
            [0, 999, 1000, 11_183_625, 999_950, u64::MAX].map(bytes),
            ["0 B", "999 B", "1.0 KB", "11.2 MB", "1.0 MB", "18.4 EB"]
        );
    }

    #[test]
    fn sizes_are_read_with_their_unit() {
        assert_eq!(parse_bytes("65536"), Ok(65_536));
        assert_eq!(parse_bytes("64M"), Ok(64 << 20));
        assert_eq!(parse_bytes("1GiB"), Ok(1 << 30));
        assert_eq!(parse_bytes("2kb"), Ok(2048));
        for wrong in ["", "M", "-1", "1.5G", "1X", "99999999999T"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_read_with_their_unit() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("2min"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("7d"), Ok(Duration::from_secs(7 * 86_400)));
        assert_eq!(parse_duration("3m"), parse_duration("3min"));
        for wrong in ["", "1", "s", "1w", "-1s", "1e9s", "1..2s", "NaNs", "é", "18446744073709551615d"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn looks_and_lives_have_bounds() {
        assert_eq!(parse_period("1h"), Ok(Duration::from_secs(3600)));
        assert!(
            parse_period("9ms").is_err() && parse_period("1441min").is_err() && parse_period("0s").is_err()
        );
        assert_eq!(parse_ttl("500ms"), Ok(Duration::from_millis(500)));
        for never in ["0s", "0.0009s", "0.9ms"] {
            assert!(parse_ttl(never).unwrap_err().contains("never seen"), "{never}");
        }
    }

    #[test]
    fn durations_choose_their_unit() {
        assert_eq!([0.0123, 0.612, 125.2].map(seconds), ["12.3 ms", "0.61 s", "2 min 5 s"]);
    }
}
