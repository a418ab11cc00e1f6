//! Memory of a process as the kernel counts it.

/// Bytes that this process shares with no other (private clean and dirty).
#[must_use]
pub fn private_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let kilobytes = |name: &str| -> u64 {
        let line = text.lines().find(|l| l.starts_with(name));
        line.and_then(|l| l.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
    };
    (kilobytes("Private_Clean:") + kilobytes("Private_Dirty:")) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_touched_megabyte_is_private() {
        let before = private_bytes();
        let mut memory = vec![0u8; 4 << 20];
        memory.iter_mut().step_by(4096).for_each(|b| *b = 1);
        assert!(private_bytes() >= before + (3 << 20));
        assert_eq!(memory[4096], 1);
    }
}
