//! Options as the old tools take them: letters after one dash, several in a word, a value in the
//! same word or the next (`-kc10`, `-n 100`); they end at the first word that is none, or at `--`.

/// Goes through the words; letters and whether they have a value (a `:` behind) stand in `known`.
#[derive(Debug)]
pub struct Letters<'a> {
    known: &'a str,
    words: &'a [String],
    /// The rest of the word whose letters are being read.
    rest: &'a str,
}

/// What was wrong, with the letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    Unknown(char),
    NoValue(char),
}

impl<'a> Letters<'a> {
    #[must_use]
    pub fn new(known: &'a str, words: &'a [String]) -> Self {
        Self { known, words, rest: "" }
    }

    /// The words behind the options.
    #[must_use]
    pub fn words(&self) -> &'a [String] {
        self.words
    }

    /// Whether the next word is this one; then it is gone.
    pub fn takes_word(&mut self, word: &str) -> bool {
        let is_next = self.rest.is_empty() && self.words.first().is_some_and(|next| next == word);
        if is_next {
            self.words = &self.words[1..];
        }
        is_next
    }

    /// The next letter and its value, empty for one that has none.
    pub fn next_option(&mut self) -> Option<Result<(char, &'a str), Misuse>> {
        if self.rest.is_empty() {
            let letters = self.words.first()?.strip_prefix('-').filter(|rest| !rest.is_empty())?;
            self.words = &self.words[1..];
            if letters == "-" {
                return None;
            }
            self.rest = letters;
        }
        let letter = self.rest.chars().next()?;
        self.rest = &self.rest[letter.len_utf8()..];
        Some(self.value_of(letter).map(|value| (letter, value)))
    }

    fn value_of(&mut self, letter: char) -> Result<&'a str, Misuse> {
        let at = self.known.find(letter).filter(|_| letter != ':');
        let at = at.ok_or(Misuse::Unknown(letter))?;
        if !self.known[at + 1..].starts_with(':') {
            return Ok("");
        }
        if !self.rest.is_empty() {
            return Ok(std::mem::take(&mut self.rest));
        }
        let (value, words) = self.words.split_first().ok_or(Misuse::NoValue(letter))?;
        self.words = words;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Found = Vec<Result<(char, String), Misuse>>;

    fn read(line: &str) -> (Found, Vec<String>) {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let mut letters = Letters::new("n:c:kq", &words);
        let mut found = Vec::new();
        while let Some(option) = letters.next_option() {
            found.push(option.map(|(letter, value)| (letter, value.to_owned())));
        }
        (found, letters.words().to_vec())
    }

    #[test]
    fn a_value_is_in_the_word_or_the_next() {
        let (found, words) = read("-n100 -kc10 -c 3 -q url -k");
        let value = |letter, value: &str| Ok((letter, value.to_owned()));
        assert_eq!(
            found,
            [value('n', "100"), value('k', ""), value('c', "10"), value('c', "3"), value('q', "")]
        );
        assert_eq!(words, ["url", "-k"]);
    }

    #[test]
    fn what_is_wrong_has_its_letter() {
        assert_eq!(read("-kx url").0[1], Err(Misuse::Unknown('x')));
        assert_eq!(read("-k:").0[1], Err(Misuse::Unknown(':')));
        assert_eq!(read("-n").0, [Err(Misuse::NoValue('n'))]);
        assert_eq!(read("--help").0[0], Err(Misuse::Unknown('-')));
    }

    #[test]
    fn two_dashes_end_them_and_one_is_a_word() {
        assert_eq!(read("-k -- -k"), (vec![Ok(('k', String::new()))], vec!["-k".to_owned()]));
        assert_eq!(read("- -k").1, ["-", "-k"]);
    }
}
