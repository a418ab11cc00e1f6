//! Times as people type them: 500ms, 10s, 2m, 1h; a bare number is seconds. Pure.

/// Longest time that is accepted (115 days): sums with a clock stay far from overflow.
const SECONDS_MAX: f64 = 1e7;

/// Nanoseconds.
pub fn parse(text: &str) -> Result<u64, String> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let unit_s = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong(text)),
    };
    let seconds = number.parse::<f64>().map_err(|_| wrong(text))? * unit_s;
    from_seconds(seconds).map_err(|_| format!("{text:?} is longer than a run can be"))
}

/// Nanoseconds of so many seconds.
pub fn from_seconds(seconds: f64) -> Result<u64, String> {
    if !(0.0..=SECONDS_MAX).contains(&seconds) {
        return Err(format!("{seconds} seconds is no time that can be waited for"));
    }
    Ok((seconds * 1e9).round() as u64)
}

/// The shortest text that [`parse`] reads as these nanoseconds, rounded to milliseconds.
#[must_use]
pub fn write(ns: u64) -> String {
    let ms = (ns + 500_000) / 1_000_000;
    if ms.is_multiple_of(1000) { format!("{}s", ms / 1000) } else { format!("{ms}ms") }
}

fn wrong(text: &str) -> String {
    format!("{text:?} is not a time; write 500ms, 10s, 2m or 1h")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        for (text, ms) in [("500ms", 500), ("10s", 10_000), ("2m", 120_000), ("1.5s", 1500)] {
            assert_eq!(parse(text), Ok(ms * 1_000_000), "{text}");
        }
    }

    #[test]
    fn times_are_written_to_the_millisecond() {
        assert_eq!((write(1_499_600_000), write(2_000_000_000)), ("1500ms".into(), "2s".into()));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "s", "-1s", "10 s", "1d", "1.2.3s", "1e99", "99999999h", "NaN", "inf"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
