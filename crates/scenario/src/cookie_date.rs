//! Dates as servers write them into cookies: the forgiving rule of RFC 6265, section 5.1.1.

/// Seconds since 1970.
pub fn parse(text: &[u8]) -> Option<i64> {
    let mut found = Found::default();
    let tokens = text.split(|byte| is_delimiter(*byte)).filter(|token| !token.is_empty());
    tokens.for_each(|token| found.take(token));
    found.seconds()
}

#[derive(Default)]
struct Found {
    time: Option<(i64, i64, i64)>,
    day: Option<i64>,
    month: Option<i64>,
    year: Option<i64>,
}

impl Found {
    fn take(&mut self, token: &[u8]) {
        if self.time.is_none() && time(token).is_some() {
            self.time = time(token);
        } else if self.day.is_none() && number(token, 1, 2).is_some() {
            self.day = number(token, 1, 2);
        } else if self.month.is_none() && month(token).is_some() {
            self.month = month(token);
        } else if self.year.is_none() {
            self.year = number(token, 2, 4).map(full_year);
        }
    }

    fn seconds(&self) -> Option<i64> {
        let ((hour, minute, second), day) = (self.time?, self.day?);
        let (month, year) = (self.month?, self.year?);
        let is_date = (1..=31).contains(&day) && year >= 1601;
        (is_date && hour < 24 && minute < 60 && second < 60)
            .then(|| days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
    }
}

/// Days from 1970-01-01 to a day of the Gregorian calendar (Howard Hinnant's `days_from_civil`).
pub fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// From 1, by its first three letters.
pub fn month(token: &[u8]) -> Option<i64> {
    const NAMES: &[u8; 36] = b"janfebmaraprmayjunjulaugsepoctnovdec";
    let name = token.get(..3)?;
    let at = NAMES.chunks(3).position(|known| known.eq_ignore_ascii_case(name))?;
    Some(at as i64 + 1)
}

fn is_delimiter(byte: u8) -> bool {
    matches!(byte, 9 | 0x20..=0x2f | 0x3b..=0x40 | 0x5b..=0x60 | 0x7b..=0x7e)
}

/// `least` to `most` digits at the beginning, and no digit behind them.
fn number(token: &[u8], least: usize, most: usize) -> Option<i64> {
    let digits = token.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if !(least..=most).contains(&digits) {
        return None;
    }
    std::str::from_utf8(&token[..digits]).ok()?.parse().ok()
}

fn time(token: &[u8]) -> Option<(i64, i64, i64)> {
    let mut parts = token.splitn(3, |byte| *byte == b':').map(|part| number(part, 1, 2));
    Some((parts.next()??, parts.next()??, parts.next()??))
}

fn full_year(year: i64) -> i64 {
    match year {
        70..=99 => year + 1900,
        0..=69 => year + 2000,
        _ => year,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_the_web_are_read() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Sun, 06-Nov-1994 08:49:37 GMT",
            "6 november 1994 8:49:37",
        ] {
            assert_eq!(parse(text.as_bytes()), Some(784_111_777), "{text}");
        }
        assert_eq!(parse(b"Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(parse(b"Sat, 29 Feb 2020 00:00:00 GMT"), Some(1_582_934_400));
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in
            ["", "0", "Nov 1994", "32 Nov 1994 0:0:0", "1 Nov 1994 24:00:00", "1 Nov 1600 0:0:0"]
        {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }
}
