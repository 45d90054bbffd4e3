//! Numbers as people read them.

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
    fn durations_choose_their_unit() {
        assert_eq!([0.0123, 0.612, 125.2].map(seconds), ["12.3 ms", "0.61 s", "2 min 5 s"]);
    }
}
