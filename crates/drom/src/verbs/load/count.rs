//! Numbers as people type them: 32, 100000, 10k, 2M. Pure.

/// A number of 1 or more that fits.
pub fn parse<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let units = [("k", 1_000), ("K", 1_000), ("M", 1_000_000)];
    let unit = units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)));
    let (digits, scale) = unit.unwrap_or((text, 1));
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("that is no whole number; write 32, 10k or 2M".to_owned());
    }
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(scale));
    match number {
        Some(0) => Err("it must be 1 or more".to_owned()),
        number => number
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| "that is more than can be".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn numbers_are_read() {
        let cases = [("1", 1), ("32", 32), ("10k", 10_000), ("10K", 10_000), ("2M", 2_000_000)];
        cases.iter().for_each(|(text, number)| assert_eq!(parse::<u64>(text), Ok(*number)));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "0", "0k", "k", "-5", "+5", "1e3", "1.5", "10 k", "10x", "ten"] {
            assert!(parse::<u64>(text).is_err(), "{text}");
        }
        assert!(parse::<u32>("5000M").is_err() && parse::<u64>("99999999999999999999").is_err());
    }
}
