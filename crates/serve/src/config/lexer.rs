//! Text of a configuration file → logical lines → words. Its noun is the `Line`: one directive,
//! section opening or section closing, with the number of its first physical line. Knows Apache's
//! continuation lines, quotes and comments and mod_perl's `=pod … =cut` and `__END__`; knows no
//! directive names. Variables (`${NAME}`) are replaced by a separate step because `Define` takes
//! effect line by line.

use std::collections::HashMap;

/// One logical line; continuation lines joined, surrounding blanks removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub number: u32,
    pub text: String,
}

/// What a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    Directive { name: String, args: Vec<String> },
    Open { name: String, args: Vec<String> },
    Close { name: String },
}

/// Splits a file into logical lines; drops comments, blank lines, POD and what follows `__END__`.
#[must_use]
pub fn lines(text: &str) -> Vec<Line> {
    let mut out = Vec::new();
    let mut in_pod = false;
    let mut physical = text.lines().enumerate();
    while let Some((index, first)) = physical.next() {
        let mut joined = first.to_string();
        while joined.ends_with('\\') {
            joined.pop();
            match physical.next() {
                Some((_, more)) => joined.push_str(more),
                None => break,
            }
        }
        let line = joined.trim();
        match line.split_whitespace().next() {
            Some("__END__") if !in_pod => break,
            Some("=cut") => in_pod = false,
            Some("=pod") => in_pod = true,
            None => {}
            Some(_) if in_pod || line.starts_with('#') => {}
            Some(_) => out.push(Line { number: index as u32 + 1, text: line.to_string() }),
        }
    }
    out
}

/// Replaces `${NAME}` by the defined value, then by the environment's; gives the names it knew
/// neither way, whose text stays as it is (as Apache does).
#[must_use]
pub fn substitute(
    text: &str,
    defines: &HashMap<String, String>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> (String, Vec<String>) {
    let (mut out, mut unknown, mut rest) = (String::new(), Vec::new(), text);
    while let Some(start) = rest.find("${") {
        let Some(length) = rest[start..].find('}') else { break };
        let name = &rest[start + 2..start + length];
        out.push_str(&rest[..start]);
        match defines.get(name).cloned().or_else(|| environment(name)) {
            Some(value) => out.push_str(&value),
            None => {
                out.push_str(&rest[start..=start + length]);
                unknown.push(name.to_string());
            }
        }
        rest = &rest[start + length + 1..];
    }
    out.push_str(rest);
    (out, unknown)
}

/// Reads one logical line; the error says what is wrong with its form.
pub fn statement(text: &str) -> Result<Statement, String> {
    if let Some(name) = text.strip_prefix("</") {
        let name = name.strip_suffix('>').ok_or("the closing \">\" is missing")?;
        return Ok(Statement::Close { name: name.trim().to_string() });
    }
    if let Some(inner) = text.strip_prefix('<') {
        let inner = inner.strip_suffix('>').ok_or("the closing \">\" is missing")?;
        let (name, args) = name_and_args(inner)?;
        return Ok(Statement::Open { name, args });
    }
    let (name, args) = name_and_args(text)?;
    Ok(Statement::Directive { name, args })
}

fn name_and_args(text: &str) -> Result<(String, Vec<String>), String> {
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    if end == 0 {
        return Err("a name is missing".to_string());
    }
    let (name, args) = (&text[..end], &text[end..]);
    let args = match words(args) {
        // The form of Apache 1.3: a text with a quote before it and none behind.
        Err(_) if name.eq_ignore_ascii_case("ErrorDocument") => words(&format!("{args}\""))?,
        args => args?,
    };
    Ok((name.to_string(), args))
}

/// Splits arguments as Apache's `ap_getword_conf`: at blanks, quotes group, and inside quotes a
/// backslash takes the quote or another backslash literally.
pub fn words(text: &str) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (word, after) = match first {
            '"' | '\'' => quoted(&rest[1..], first)?,
            _ => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                (rest[..end].to_string(), &rest[end..])
            }
        };
        out.push(word);
        rest = after.trim_start();
    }
    Ok(out)
}

fn quoted(text: &str, quote: char) -> Result<(String, &str), String> {
    let mut word = String::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let escaped = chars.peek().map(|&(_, n)| n).filter(|&n| n == quote || n == '\\');
        match (c, escaped) {
            ('\\', Some(next)) => {
                word.push(next);
                chars.next();
            }
            _ if c == quote => return Ok((word, &text[at + 1..])),
            _ => word.push(c),
        }
    }
    Err(format!("the closing quote {quote} is missing"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn joins_continuations_and_drops_comments_pod_and_end() {
        let text = "# a comment \\\n goes on\nListen \\\n  80\n\n=pod\nListen 1\n=cut\nKeepAlive \
         On\n__END__\nx";
        let got = lines(text);
        assert_eq!(got[0], Line { number: 3, text: "Listen   80".into() });
        assert_eq!(got[1], Line { number: 9, text: "KeepAlive On".into() });
        assert_eq!(got.len(), 2);
    }

    #[test]
    fn splits_words_with_quotes() {
        let got = words(r#" one "two words" 'three "x"' "a\"b" C:\path # not a comment"#).unwrap();
        let want =
            ["one", "two words", "three \"x\"", "a\"b", r"C:\path", "#", "not", "a", "comment"];
        assert_eq!(got, want);
        assert!(words("\"open").unwrap_err().contains("closing quote"));
    }

    #[test]
    fn substitutes_known_names_and_reports_others() {
        let defines = HashMap::from([("A".to_string(), "1".to_string())]);
        let environment = |n: &str| (n == "E").then(|| "env".to_string());
        let (text, unknown) = substitute("x${A}y${E}z${NO}${", &defines, &environment);
        assert_eq!((text.as_str(), unknown), ("x1yenvz${NO}${", vec!["NO".to_string()]));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*|[<>/${}\"'\\\\ \n#=a]{0,60}") {
            for line in lines(&text) {
                let _ = statement(&line.text);
            }
            let _ = (statement(&text), words(&text));
            let _ = substitute(&text, &HashMap::new(), &|_| None);
        }

        /// What is quoted as the language asks comes out as it went in.
        #[test]
        fn quoted_words_come_out_as_they_went_in(
            all in prop::collection::vec("[ -~äé]{0,12}", 0..6),
            single in any::<bool>(),
        ) {
            let quote = if single { '\'' } else { '"' };
            let quoted = |word: &String| {
                let inner = word.replace('\\', "\\\\").replace(quote, &format!("\\{quote}"));
                format!("{quote}{inner}{quote}")
            };
            let text: Vec<String> = all.iter().map(quoted).collect();
            prop_assert_eq!(words(&text.join(" ")), Ok(all));
        }

        /// A line that is continued says what the line in one piece says.
        #[test]
        fn a_continued_line_is_the_same_line(
            text in "[A-Za-z][ -\\[\\]-~]{0,40}",
            cut in any::<prop::sample::Index>(),
        ) {
            let cut = cut.index(text.len() + 1);
            let broken = format!("{}\\\n{}", &text[..cut], &text[cut..]);
            prop_assert_eq!(lines(&broken), lines(&text));
        }
    }

    #[test]
    fn reads_sections() {
        assert_eq!(
            statement("<Directory ~ \"^/x\">").unwrap(),
            Statement::Open { name: "Directory".into(), args: vec!["~".into(), "^/x".into()] }
        );
        assert_eq!(
            statement("</Directory>").unwrap(),
            Statement::Close { name: "Directory".into() }
        );
        assert!(statement("<Directory /x").is_err());
        assert!(statement("< >").is_err());
    }
}
