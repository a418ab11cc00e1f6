//! Command lines without their secrets: what a password, a token or a key is the value of, by the
//! name it is given by, as far as names tell. Pure.

use drom_report::format::plain;
use drom_scenario::{MASKED, is_secret, masked_url};

/// Programs that take a password right behind a letter: `-pSECRET`.
const BEHIND_P: &[&str] = &["mysql", "mariadb", "sshpass", "smbclient", "7z"];
/// Letters whose next word is `user:password`.
const USERS: &[&str] = &["-u", "--user", "-U", "--proxy-user", "--basic"];
/// Where `-p` has a password for its next word.
const APART: &[&str] = &["sshpass"];

/// A command line for people, on one line.
pub fn command(arguments: &[String]) -> String {
    plain(&words(arguments.iter().map(String::as_str)).join(" "))
}

/// `GET /a?token=T HTTP/1.1` without the token.
pub fn request(line: &str) -> String {
    plain(&line.split(' ').map(url).collect::<Vec<_>>().join(" "))
}

fn words<'a>(arguments: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut program = String::new();
    let (mut before, mut open) = ("", None);
    let mut out = Vec::new();
    for (number, word) in arguments.enumerate() {
        if number == 0 {
            program = word.rsplit('/').next().unwrap_or(word).to_owned();
        }
        if let Some(quote) = open {
            // The rest of a value that was masked.
            open = open.filter(|_| !word.ends_with(quote));
            continue;
        }
        out.push(if number == 0 && !word.contains([' ', '=']) {
            word.to_owned()
        } else {
            masked(&program, before, word)
        });
        if out.last().is_some_and(|shown| shown.ends_with(MASKED)) {
            open = unclosed(word);
        }
        before = word;
    }
    out
}

/// The quote that a value begins with and does not end with.
fn unclosed(word: &str) -> Option<char> {
    let value = word.split_once('=').map_or(word, |(_, value)| value);
    let quote = value.chars().next().filter(|letter| matches!(letter, '"' | '\''))?;
    (value.len() == 1 || !value.ends_with(quote)).then_some(quote)
}

/// `{"password":"x"}`
fn is_secret_object(word: &str) -> bool {
    let mut texts = word.split('"');
    word.starts_with(['{', '[']) && texts.any(|text| !text.is_empty() && is_named(text))
}

fn masked(program: &str, before: &str, word: &str) -> String {
    let is_value = !word.starts_with('-');
    if is_value && (asks_for_one(before) || before == "-p" && APART.contains(&program)) {
        return MASKED.to_owned();
    }
    if is_value && USERS.contains(&before) {
        return word
            .split_once(':')
            .map_or(word.to_owned(), |(user, _)| format!("{user}:{MASKED}"));
    }
    if let Some(after) = word.strip_prefix("-p")
        && !after.is_empty()
        && BEHIND_P.iter().any(|name| program.starts_with(name))
    {
        return format!("-p{MASKED}");
    }
    if let Some(user) = word.strip_prefix("-u").and_then(|rest| rest.split_once(':'))
        && matches!(program, "curl" | "wget")
    {
        return format!("-u{}:{MASKED}", user.0);
    }
    if is_secret_object(word) {
        return MASKED.to_owned();
    }
    if let Some((name, value)) = word.split_once(':')
        && is_named(name.strip_prefix("-H").unwrap_or(name))
        && !value.is_empty()
    {
        let space = if value.starts_with(' ') { " " } else { "" };
        return format!("{name}:{space}{MASKED}");
    }
    // A program may have written a whole line of its own.
    if word.contains(char::is_whitespace) {
        return words(word.split(char::is_whitespace)).join(" ");
    }
    assigned(word)
}

/// `--password`, whose value is the next word.
fn asks_for_one(word: &str) -> bool {
    let name = word.trim_start_matches('-');
    word.starts_with('-') && name.len() > 1 && !name.contains('=') && is_named(name)
}

/// `--name=value`, `NAME=value`, or no such thing.
fn assigned(word: &str) -> String {
    let Some((name, value)) = word.split_once('=') else { return url(word) };
    let is_address = name.contains(['/', '?']);
    match is_named(name) && !is_address && !value.is_empty() {
        true => format!("{name}={MASKED}"),
        false if is_address => url(word),
        false => format!("{name}={}", url(value)),
    }
}

/// Names of variables besides those of parameters: `SIGNING_KEY`.
fn is_named(name: &str) -> bool {
    let name = name.trim_start_matches('-');
    let is_key =
        ["_key", "-key", "pass"].iter().any(|end| name.to_ascii_lowercase().ends_with(end));
    is_key || is_secret(name)
}

/// `http://user:password@host/?token=T`.
fn url(text: &str) -> String {
    let text = masked_url(text);
    let Some((scheme, rest)) = text.split_once("://") else { return text };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let user =
        authority.rsplit_once('@').and_then(|(user, host)| Some((user.split_once(':')?, host)));
    match user {
        Some(((user, _), host)) => format!("{scheme}://{user}:{MASKED}@{host}{path}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &[&str]) -> String {
        command(&line.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn values_of_secret_names_are_masked() {
        let lines: [(&[&str], &str); 20] = [
            (&["x", "--password=hunter2"], "x --password=MASKED"),
            (&["x", "--password", "hunter2", "y"], "x --password MASKED y"),
            (&["x", "--api-key", "hunter2"], "x --api-key MASKED"),
            (&["env", "DB_PASSWORD=hunter2", "A=b"], "env DB_PASSWORD=MASKED A=b"),
            (&["env", "SIGNING_KEY=hunter2"], "env SIGNING_KEY=MASKED"),
            (&["x", "token=hunter2"], "x token=MASKED"),
            (&["/usr/bin/mysql", "-uroot", "-phunter2"], "/usr/bin/mysql -uroot -pMASKED"),
            (&["sshpass", "-p", "hunter2", "ssh"], "sshpass -p MASKED ssh"),
            (&["curl", "-u", "me:hunter2"], "curl -u me:MASKED"),
            (&["curl", "-H", "Authorization: Bearer hunter2"], "curl -H Authorization: MASKED"),
            (&["psql", "postgres://me:hunter2@db/x"], "psql postgres://me:MASKED@db/x"),
            (&["daemon: --token=hunter2 up"], "daemon: --token=MASKED up"),
            (&["sh", "-c", "PASSWORD=hunter2 x"], "sh -c PASSWORD=MASKED x"),
            (&["sh", "-c", "x --password \"a b\" -y"], "sh -c x --password MASKED -y"),
            (&["psql", "password='a b' user=b"], "psql password=MASKED user=b"),
            (&["curl", "-ume:hunter2"], "curl -ume:MASKED"),
            (&["curl", "-HAuthorization: Bearer hunter2"], "curl -HAuthorization: MASKED"),
            (&["curl", "-H", "Authorization:hunter2"], "curl -H Authorization:MASKED"),
            (&["curl", "-d", "{\"password\":\"hunter2\"}"], "curl -d MASKED"),
            (&["x", "--dbpass", "hunter2"], "x --dbpass MASKED"),
        ];
        for (line, shown) in lines {
            assert_eq!(of(line), shown);
        }
    }

    #[test]
    fn harmless_words_stay() {
        let lines: [&[&str]; 6] = [
            &["perl", "-pe", "s/a/b/"],
            &["drom", "serve", "-p", "8080"],
            &["x", "--max-tokens", "7", "--keyboard=de"],
            &["x", "--password", "--verbose"],
            &["curl", "http://127.0.0.1:8080/a?b=c"],
            &["perl", "-e", "sleep 5; print 1 == 2"],
        ];
        for line in lines {
            assert_eq!(of(line), line.join(" "));
        }
    }

    #[test]
    fn requests_and_terminals_are_safe() {
        assert_eq!(request("GET /a?b=1&token=T HTTP/1.1"), "GET /a?b=1&token=MASKED HTTP/1.1");
        assert_eq!(of(&["x", "\u{1b}[2J"]), r"x \u{1b}[2J");
        assert_eq!(of(&[]), "");
    }
}
