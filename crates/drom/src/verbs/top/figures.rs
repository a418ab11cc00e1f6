//! Figures for a table: short, with a unit, of an even width. Pure.

/// `0`, `812 B`, `45.6K`, `7.81M`: three digits and a letter, in thousands.
pub fn bytes(bytes: u64) -> String {
    let units = ["B", "K", "M", "G", "T", "P", "E"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    match value {
        _ if bytes == 0 => "0".to_owned(),
        v if unit == 0 || v >= 99.95 => format!("{v:.0}{}", units[unit]),
        v if v >= 9.995 => format!("{v:.1}{}", units[unit]),
        v => format!("{v:.2}{}", units[unit]),
    }
}

/// `+7.81M`, `-12.0K`, `0`.
pub fn signed(grown: i64) -> String {
    let sign = match grown {
        0 => "",
        1.. => "+",
        _ => "-",
    };
    format!("{sign}{}", bytes(grown.unsigned_abs()))
}

/// `0.0`, `12.5`, `150`.
pub fn percent(value: f64) -> String {
    if value >= 99.95 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// CPU time as `top` has it, larger units further on: `0:07.25`, `12:07`, `3h07m`, `9d03h`.
pub fn cpu_time(seconds: f64) -> String {
    let whole = seconds as u64;
    match whole {
        0..600 => format!("{}:{:05.2}", whole / 60, (seconds * 100.0).floor() / 100.0 % 60.0),
        600..3_600 => format!("{}:{:02}", whole / 60, whole % 60),
        3_600..86_400 => format!("{}h{:02}m", whole / 3_600, whole / 60 % 60),
        _ => format!("{}d{:02}h", whole / 86_400, whole / 3_600 % 24),
    }
}

/// How long something has run: `12 ms`, `3.2 s`, `5 min 2 s`.
pub fn elapsed(seconds: f64) -> String {
    drom_report::format::time(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let sizes = [(0, "0"), (812, "812B"), (1_000, "1.00K"), (45_600, "45.6K")];
        sizes.iter().for_each(|(size, text)| assert_eq!(bytes(*size), *text));
        assert_eq!([bytes(999_499), bytes(999_500)], ["999K", "1.00M"]);
        assert_eq!(bytes(u64::MAX), "18.4E");
        assert_eq!([signed(0), signed(-12_000), signed(7_810_000)], ["0", "-12.0K", "+7.81M"]);
        assert_eq!([percent(0.04), percent(99.94), percent(150.2)], ["0.0", "99.9", "150"]);
        assert!((0..64).all(|bits| bytes(1 << bits).len() <= 5));
    }

    #[test]
    fn times_grow_coarser() {
        let times = [(7.256, "0:07.25"), (599.999, "9:59.99"), (727.0, "12:07")];
        times.iter().for_each(|(time, text)| assert_eq!(cpu_time(*time), *text));
        assert_eq!([cpu_time(11_250.0), cpu_time(788_000.0)], ["3h07m", "9d02h"]);
        assert_eq!(elapsed(3.21), "3.2 s");
    }
}
