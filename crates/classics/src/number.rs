//! Numbers as the old tools read and write them. Pure.

/// Where the engine's clock stands among the days.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock {
    /// Microseconds of the Unix epoch when the engine's clock was 0.
    pub unix_us_at_zero: i64,
    /// Of local time, to be added to UTC.
    pub utc_offset_s: i64,
}

impl WallClock {
    /// Seconds of the Unix epoch at a stamp of the engine.
    #[must_use]
    pub fn unix_s(&self, stamp_ns: u64) -> i64 {
        (self.unix_us_at_zero + (stamp_ns / 1_000) as i64).div_euclid(1_000_000)
    }

    /// The same as a day and a time: `Sat Nov 21 22:36:21 2026`.
    #[must_use]
    pub fn local(&self, stamp_ns: u64) -> String {
        let seconds = self.unix_s(stamp_ns) + self.utc_offset_s;
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = civil(days);
        let weekday = WEEKDAYS[(days + 4).rem_euclid(7) as usize];
        let (hour, minute) = (second / 3600, second / 60 % 60);
        let month = MONTHS[month - 1];
        format!("{weekday} {month} {day:02} {hour:02}:{minute:02}:{:02} {year}", second % 60)
    }
}

const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Year, month from 1, day from 1 of a day counted from 1970-01-01: years begin in March, so that
/// the leap day is the last of its year (Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days: i64) -> (i64, usize, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year + era * 400 + i64::from(month <= 2), month as usize, day)
}

/// C's `atoi`: the number that the text begins with, else 0.
#[must_use]
pub fn leading_int(text: &str) -> i64 {
    let text = text.trim_start();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let number = digits[..end].parse().unwrap_or(if end == 0 { 0 } else { i64::MAX });
    if negative { -number } else { number }
}

/// RFC 4648, with padding.
#[must_use]
pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at > three.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

/// C's `%g`: six significant digits, no zeros at the end, an exponent where it is shorter.
#[must_use]
pub fn general(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return "0".to_owned();
    }
    let scientific = format!("{number:.5e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let bare = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..6).contains(&exponent) {
        let decimals = (5 - exponent).unsigned_abs() as usize;
        return bare(&format!("{number:.decimals$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", bare(digits), exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_far_as_they_go() {
        for (text, number) in [("12", 12), (" 7x", 7), ("-3", -3), ("+4", 4), ("x", 0), ("", 0)] {
            assert_eq!(leading_int(text), number, "{text}");
        }
        assert_eq!(leading_int("99999999999999999999"), i64::MAX);
    }

    #[test]
    fn base64_has_the_vectors_of_rfc_4648() {
        let vectors = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("u:p", "dTpw")];
        for (plain, coded) in vectors {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        assert_eq!(base64(&[0xfb, 0xff]), "+/8=");
    }

    #[test]
    fn general_numbers_are_printfs() {
        // printf '%g' of each.
        for (number, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (100_000.0, "100000"),
            (1_000_000.0, "1e+06"),
            (5_336_060.0, "5.33606e+06"),
            (999_999.6, "1e+06"),
            (4_668.4, "4668.4"),
            (10.014_8, "10.0148"),
            (0.081_950_7, "0.0819507"),
            (0.000_1, "0.0001"),
            (0.000_012_345, "1.2345e-05"),
            (289_884.0, "289884"),
            (466_607.26, "466607"),
        ] {
            assert_eq!(general(number), text);
        }
    }

    #[test]
    fn days_have_their_names() {
        let at = |unix_s: i64, offset_s| {
            WallClock { unix_us_at_zero: unix_s * 1_000_000, utc_offset_s: offset_s }.local(0)
        };
        // Of date(1) in UTC.
        assert_eq!(at(1_795_300_581, 0), "Sat Nov 21 22:36:21 2026");
        assert_eq!(at(0, 0), "Thu Jan 01 00:00:00 1970");
        assert_eq!(at(951_782_400, 0), "Tue Feb 29 00:00:00 2000");
        assert_eq!(at(0, -3600), "Wed Dec 31 23:00:00 1969");
        let later = WallClock { unix_us_at_zero: 1_500_000, utc_offset_s: 0 };
        assert_eq!(later.unix_s(499_999_999), 1);
        assert_eq!(later.unix_s(500_000_000), 2);
    }
}
