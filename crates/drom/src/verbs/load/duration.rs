//! Times of flags. Pure.

use std::time::Duration;

/// A scenario's times are written in the same way.
pub fn parse(text: &str) -> Result<Duration, String> {
    drom_scenario::duration::parse(text).map(Duration::from_nanos)
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
