//! Sensible digits: three significant ones for what is measured, no more than the interval bears.

use crate::Estimate;

/// `1,234`, `45.6`, `7.89`, `0.123`.
#[must_use]
pub fn three(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => grouped(value.round() as i64),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.9995 => format!("{value:.2}"),
        0.0 => "0".to_owned(),
        v => {
            let decimals = (2 - v.log10().floor() as i32).clamp(3, 9) as usize;
            format!("{value:.decimals$}")
        }
    }
}

/// Requests per second: rounded to three or four digits, so that nobody reads noise.
#[must_use]
pub fn rate(value: f64) -> String {
    let step = 10_f64.powi((value.abs().max(1.0).log10().floor() as i32 - 3).max(0));
    if value >= 1_000.0 {
        grouped((value / step).round() as i64 * step as i64)
    } else {
        three(value)
    }
}

/// A whole number with two digits that mean something: `7`, `86`, `2,900`.
#[must_use]
pub fn two(value: usize) -> String {
    let step = 10_usize.pow(value.max(1).ilog10().saturating_sub(1));
    grouped(((value + step / 2) / step * step) as i64)
}

/// `1 worker`, `2 workers`.
#[must_use]
pub fn number_of(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// `840 B`, `1.21 kB`, `45.6 MB`: thousands, as disks and networks count.
#[must_use]
pub fn bytes(bytes: f64) -> String {
    match bytes {
        _ if bytes < 999.5 => format!("{bytes:.0} B"),
        _ if bytes < 999_500.0 => format!("{} kB", significant(bytes / 1e3)),
        _ if bytes < 999.5e6 => format!("{} MB", significant(bytes / 1e6)),
        _ => format!("{} GB", significant(bytes / 1e9)),
    }
}

/// Three significant digits, as far as they are after the point.
#[must_use]
pub fn significant(value: f64) -> String {
    let decimals = match value {
        _ if value >= 99.95 => 0,
        _ if value >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// A ratio: `0.000350×`, `0.987×`, `3.21×`, `45.6×`; a small one keeps three significant digits.
#[must_use]
pub fn ratio(value: f64) -> String {
    match value {
        v if v >= 99.95 => format!("{v:.0}\u{d7}"),
        v if v >= 9.995 => format!("{v:.1}\u{d7}"),
        v if v >= 1.995 => format!("{v:.2}\u{d7}"),
        v if v >= 0.0995 => format!("{v:.3}\u{d7}"),
        v => format!("{}\u{d7}", three(v)),
    }
}

/// A share in percent as it was written: `2`, `0.5`.
#[must_use]
pub fn percent(share: f64) -> String {
    crate::svg::short(100.0 * share)
}

/// A ratio with its interval: `3.21× (3.10 to 3.33)`.
#[must_use]
pub fn interval(estimate: Estimate) -> String {
    let bare = |value: f64| ratio(value).replace('\u{d7}', "");
    format!("{} ({} to {})", ratio(estimate.value), bare(estimate.low), bare(estimate.high))
}

/// `850 ms`, `12 s`, `3 min 5 s`, `2 h 10 min`.
#[must_use]
pub fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{:.0} ms", 1e3 * s),
        s if s < 9.95 => format!("{s:.1} s"),
        s if s < 59.5 => format!("{s:.0} s"),
        s if s < 3_600.0 => {
            let whole = s.round() as u64;
            format!("{} min {} s", whole / 60, whole % 60).replace(" min 0 s", " min")
        }
        s => format!("{} h {} min", (s / 3_600.0) as u64, (s / 60.0) as u64 % 60),
    }
}

/// Response times: `4.21 ms`, `310 µs`, `1.20 s`.
#[must_use]
pub fn ms(value: f64) -> String {
    match value {
        v if v >= 1_000.0 => format!("{} s", three(v / 1e3)),
        v if v >= 1.0 => format!("{} ms", three(v)),
        v => format!("{} \u{b5}s", three(v * 1e3)),
    }
}

/// One line of a text that others wrote: what could command a terminal or turn its letters around
/// is shown as its number.
#[must_use]
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\t' => out.push(' '),
            letter if is_command(letter) => out.extend(letter.escape_unicode()),
            letter => out.push(letter),
        }
    }
    out
}

/// The same for words of several lines.
#[must_use]
pub fn plain_lines(text: &str) -> String {
    text.split('\n').map(plain).collect::<Vec<_>>().join("\n")
}

/// Whether a terminal does something for this letter instead of showing it.
pub(crate) fn is_command(letter: char) -> bool {
    let turns = ['\u{202a}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
    letter.is_control() || turns.iter().any(|range| range.contains(&letter))
}

/// The same for Markdown, where signs mean something, too.
#[must_use]
pub fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in plain(text).chars() {
        if "\\`*_<>|[]#~&".contains(letter) {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

/// A share in percent that lies over a limit, with digits enough to show that it does.
#[must_use]
pub fn percent_over(share: f64) -> String {
    let tenths = (1_000.0 * share).ceil() / 10.0;
    if tenths < 10.0 { format!("{tenths:.1}") } else { format!("{tenths:.0}") }
}

/// Without the signs that a terminal of an old locale cannot show.
#[must_use]
pub fn ascii(text: &str) -> String {
    let signs = [
        ("\u{b5}", "u"),
        ("\u{d7}", "x"),
        ("\u{b1}", "+-"),
        ("\u{b7}", "."),
        ("\u{2265}", ">="),
        ("\u{2264}", "<="),
        ("\u{2500}", "-"),
        ("\u{2026}", "..."),
    ];
    signs.iter().fold(text.to_owned(), |text, (sign, word)| text.replace(sign, word))
}

fn grouped(value: i64) -> String {
    let digits = value.abs().to_string();
    let mut out = String::from(if value < 0 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_commands_nothing() {
        assert_eq!(plain("a\u{1b}[2J\tb\u{202e}\n\u{9b}c\r"), r"a\u{1b}[2J b\u{202e} \u{9b}c\u{d}");
        assert_eq!(plain("gr\u{fc}n \u{d7} 3"), "gr\u{fc}n \u{d7} 3");
        assert_eq!(plain_lines("a\r\nb"), "a\\u{d}\nb");
        assert_eq!(markdown("a|b <i>*c*</i> d_e"), r"a\|b \<i\>\*c\*\</i\> d\_e");
    }

    #[test]
    fn digits_are_sensible() {
        let threes = [(1234.5, "1,235"), (45.64, "45.6"), (7.891, "7.89"), (0.01234, "0.0123")];
        threes.iter().for_each(|(value, text)| assert_eq!(three(*value), *text));
        let rates =
            [(123_456.7, "123,500"), (31_849.0, "31,850"), (1_234.6, "1,235"), (98.7, "98.7")];
        rates.iter().for_each(|(value, text)| assert_eq!(rate(*value), *text));
        assert_eq!([two(0), two(7), two(86), two(2_949)], ["0", "7", "86", "2,900"]);
        assert_eq!(ratio(0.98765), "0.988\u{d7}");
        assert_eq!(ratio(4.216), "4.22\u{d7}");
        assert_eq!(ratio(0.000_35), "0.000350\u{d7}");
        assert_eq!(ratio(0.011_72), "0.0117\u{d7}");
        let sizes = [0.0, 999.0, 15_200.0, 15_200_000.0, 2.5e9].map(bytes);
        assert_eq!(sizes, ["0 B", "999 B", "15.2 kB", "15.2 MB", "2.50 GB"]);
        assert_eq!(time(185.0), "3 min 5 s");
        assert_eq!(time(59.8), "1 min");
        assert_eq!(ms(0.31), "310 \u{b5}s");
        assert_eq!([0.050_01, 0.0512, 0.2, 0.996].map(percent_over), ["5.1", "5.2", "20", "100"]);
    }
}
