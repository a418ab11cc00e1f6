//! What is over a limit today and may only shrink: one line an exception in
//! `crates/tidy/ratchet.txt`.
//!
//! An entry that is larger than the truth is a fault as well, so that what was won stays won. `make
//! ratchet` writes the file as the house is now; a reviewer sees in the difference what grew.

use std::collections::BTreeMap;

const HEAD: &str =
    "# Over a limit today; may only shrink. `make ratchet` writes it. See src/ratchet.rs.\n";

/// Name of the exception -> its size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ratchet(BTreeMap<String, usize>);

impl Ratchet {
    /// Lines `NAME = SIZE`; `#` begins a comment.
    ///
    /// # Errors
    /// The first line that is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut entries = BTreeMap::new();
        for line in text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
            let entry = line.rsplit_once(" = ").and_then(|(n, s)| Some((n, s.parse().ok()?)));
            let (name, size) =
                entry.ok_or_else(|| format!("ratchet.txt: \"{line}\" is no NAME = SIZE"))?;
            entries.insert(name.to_owned(), size);
        }
        Ok(Self(entries))
    }

    /// The file's text for these sizes.
    #[must_use]
    pub fn write(sizes: &BTreeMap<String, usize>) -> String {
        let entries = sizes.iter().map(|(name, size)| format!("{name} = {size}\n"));
        entries.fold(HEAD.to_owned(), |text, entry| text + &entry)
    }

    /// What is wrong, given everything of this `kind` that is over its limit now.
    #[must_use]
    pub fn judge(&self, kind: &str, found: &BTreeMap<String, usize>, limit: &str) -> Vec<String> {
        let mut faults = Vec::new();
        for (name, &size) in found {
            match self.0.get(name) {
                None => faults.push(format!("{name}: {size}, {limit}")),
                Some(&kept) if size > kept => {
                    faults
                        .push(format!("{name}: {size}, was {kept}: it may only shrink ({limit})"));
                }
                Some(&kept) if size < kept => {
                    faults.push(format!(
                        "ratchet.txt: write \"{name} = {size}\": it shrank from {kept}"
                    ));
                }
                Some(_) => {}
            }
        }
        let gone = self.0.keys().filter(|n| n.starts_with(kind) && !found.contains_key(*n));
        faults.extend(
            gone.map(|name| format!("ratchet.txt: delete \"{name}\": it is within the limit")),
        );
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_turns_one_way_only() {
        let ratchet = Ratchet::parse("# why\nfn a.rs f = 80\nfn a.rs g = 90\n").unwrap();
        let now = |entries: &[(&str, usize)]| {
            let found = entries.iter().map(|(n, s)| ((*n).to_owned(), *s)).collect();
            ratchet.judge("fn ", &found, "at most 70")
        };
        assert_eq!(now(&[("fn a.rs f", 80), ("fn a.rs g", 90)]), Vec::<String>::new());
        assert!(now(&[("fn a.rs f", 81), ("fn a.rs g", 90)])[0].contains("only shrink"));
        assert!(now(&[("fn a.rs f", 79), ("fn a.rs g", 90)])[0].contains("= 79"));
        assert!(now(&[("fn a.rs f", 80)])[0].contains("delete"));
        assert_eq!(now(&[("fn a.rs f", 80), ("fn a.rs g", 90), ("fn b.rs h", 71)]).len(), 1);
    }

    #[test]
    fn what_is_written_can_be_read() {
        let sizes = BTreeMap::from([("fn a.rs f".to_owned(), 80)]);
        let ratchet = Ratchet::parse(&Ratchet::write(&sizes)).unwrap();
        assert!(ratchet.judge("fn ", &sizes, "").is_empty());
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Ratchet::parse("fn a.rs f 80").is_err());
    }
}
