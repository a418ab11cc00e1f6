//! Times as people type them: 500ms, 10s, 2m, 1h; a bare number is seconds. Pure.

use std::time::Duration;

/// Longest time that is accepted: sums with the clock stay far from overflow.
const SECONDS_MAX: f64 = 1e7;

pub fn parse(text: &str) -> Result<Duration, String> {
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
    if seconds > SECONDS_MAX {
        return Err(format!("{text:?} is longer than a run can be"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn wrong(text: &str) -> String {
    format!("{text:?} is not a time; write 500ms, 10s, 2m or 1h")
}

#[cfg(test)]
mod tests {
    use super::parse;
    use std::time::Duration;

    #[test]
    fn times_are_read() {
        for (text, ms) in [("500ms", 500), ("10s", 10_000), ("2m", 120_000), ("3", 3_000)] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(parse("1.5s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(parse("1h"), Ok(Duration::from_secs(3_600)));
        assert_eq!(parse("0s"), Ok(Duration::ZERO));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "s", "-1s", "10 s", "1d", "1.2.3s", "1e99", "99999999h", "NaN", "inf"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
