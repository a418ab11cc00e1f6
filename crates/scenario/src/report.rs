//! What judged steps look like to other programs: TAP 13, which `prove` reads, and JUnit XML. Text
//! out, nothing else.

use std::fmt::Write as _;

use crate::{
    check::Answer,
    request::Request,
    scenario::Scenario,
    share::{Share, Verdict},
};

/// One step of one run through a scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judged {
    pub step: String,
    /// From the request to the last byte; none without an answer.
    pub took_ns: Option<u64>,
    /// Why there was no answer, or no request.
    pub error: Option<String>,
    /// Why it was not this step's turn: an earlier one ended the round.
    pub skipped: Option<String>,
    pub checks: Vec<JudgedCheck>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JudgedCheck {
    pub name: String,
    /// What was there instead; none when the check passed.
    pub found: Option<String>,
}

impl Judged {
    /// The answer that was just judged.
    #[must_use]
    pub fn of(scenario: &Scenario, share: &Share, request: &Request, answer: &Answer<'_>) -> Self {
        let check = |verdict: &Verdict| JudgedCheck {
            name: scenario.checks()[verdict.check].name.clone(),
            found: (!verdict.passed).then(|| scenario.found(verdict.check, answer)),
        };
        Self {
            step: name(scenario, request),
            took_ns: Some(answer.after_ns),
            checks: share.verdicts().iter().map(check).collect(),
            ..Self::default()
        }
    }

    /// A request that had no answer, and why.
    #[must_use]
    pub fn without_answer(scenario: &Scenario, request: &Request, reason: &str) -> Self {
        let (step, error) = (name(scenario, request), Some(reason.to_owned()));
        Self { step, error, ..Self::default() }
    }

    /// A step that was not asked for, and why.
    #[must_use]
    pub fn unsent(scenario: &Scenario, step: usize, reason: String) -> Self {
        let step = scenario.steps()[step].name.clone();
        Self { step, error: Some(reason), ..Self::default() }
    }

    /// A step that was left out because the one before it ended the round.
    #[must_use]
    pub fn skipped(scenario: &Scenario, step: usize, after: &str) -> Self {
        let step = scenario.steps()[step].name.clone();
        Self { step, skipped: Some(format!("`{after}` ended the round")), ..Self::default() }
    }

    /// In place of all, where no test could be made.
    #[must_use]
    pub fn given_up(reason: &str) -> Self {
        Self { step: "the test".to_owned(), error: Some(reason.to_owned()), ..Self::default() }
    }

    /// In place of all that did not come to its turn when a test was stopped: cut off, it is not
    /// passed, whoever reads it.
    #[must_use]
    pub fn cut() -> Self {
        let error = Some("the test was stopped before it was over".to_owned());
        Self { step: "the rest".to_owned(), error, ..Self::default() }
    }
}

/// The step's; of a list, where all have one, what was asked.
fn name(scenario: &Scenario, request: &Request) -> String {
    if !scenario.is_list {
        return scenario.steps()[request.step].name.clone();
    }
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (method, target) = (text(request.method()), text(request.target()));
    match &scenario.origins()[request.origin] {
        _ if scenario.origins().len() == 1 => format!("{method} {target}"),
        origin => format!("{method} {origin}{target}"),
    }
}

/// Test Anything Protocol, version 13: a test point for each check, one for each step that had no
/// answer, and one that says `# SKIP` for each that was left out.
#[must_use]
pub fn tap(steps: &[Judged]) -> String {
    let count: usize = steps.iter().map(points).sum();
    let mut tap = Tap { out: format!("TAP version 13\n1..{count}\n"), number: 0 };
    for step in steps {
        if step.error.is_some() {
            tap.point(step, "an answer", step.error.as_deref());
        }
        for check in &step.checks {
            tap.point(step, &check.name, check.found.as_deref());
        }
        if let Some(why) = &step.skipped {
            tap.skip(step, why);
        }
    }
    tap.out
}

/// The same where no test could be made.
#[must_use]
pub fn bail_out(reason: &str) -> String {
    format!("TAP version 13\nBail out! {}\n", one_line(reason))
}

struct Tap {
    out: String,
    number: usize,
}

impl Tap {
    fn point(&mut self, step: &Judged, name: &str, wrong: Option<&str>) {
        let verdict = if wrong.is_some() { "not ok" } else { "ok" };
        let line = format!("{}: {name}", step.step);
        self.line(verdict, &tap_escaped(&line));
        let Some(wrong) = wrong else { return };
        put(&mut self.out, format_args!("  ---\n  message: {}\n", yaml(wrong)));
        if let Some(ns) = step.took_ns {
            put(&mut self.out, format_args!("  duration_ms: {:.3}\n", ns as f64 / 1e6));
        }
        self.out.push_str("  ...\n");
    }

    fn skip(&mut self, step: &Judged, why: &str) {
        let (step, why) = (tap_escaped(&step.step), tap_escaped(why));
        self.line("ok", &format!("{step} # SKIP {why}"));
    }

    fn line(&mut self, verdict: &str, rest: &str) {
        self.number += 1;
        put(&mut self.out, format_args!("{verdict} {} - {rest}\n", self.number));
    }
}

/// JUnit XML as build servers read it: a suite for each step, a case for each check.
#[must_use]
pub fn junit(scenario: &str, steps: &[Judged]) -> String {
    let tests: usize = steps.iter().map(points).sum();
    let failures: usize = steps.iter().map(failures).sum();
    let errors = steps.iter().filter(|step| step.error.is_some()).count();
    let skipped = steps.iter().filter(|step| step.skipped.is_some()).count();
    let ns: u64 = steps.iter().filter_map(|step| step.took_ns).sum();
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    put(
        &mut out,
        format_args!(
            "<testsuites name=\"{}\" tests=\"{tests}\" failures=\"{failures}\" \
             errors=\"{errors}\" skipped=\"{skipped}\" time=\"{}\">\n",
            xml(scenario),
            seconds(ns)
        ),
    );
    steps.iter().for_each(|step| put_suite(&mut out, scenario, step));
    out.push_str("</testsuites>\n");
    out
}

fn put_suite(out: &mut String, scenario: &str, step: &Judged) {
    let (name, errors) = (xml(&step.step), u8::from(step.error.is_some()));
    let skipped = u8::from(step.skipped.is_some());
    let time = seconds(step.took_ns.unwrap_or(0));
    put(
        out,
        format_args!(
            "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{}\" errors=\"{errors}\" \
             skipped=\"{skipped}\" time=\"{time}\">\n",
            points(step),
            failures(step)
        ),
    );
    let class = xml(&format!("{scenario}.{}", step.step));
    let mut case = |name: &str, wrong: Option<(&str, &String)>| {
        let begin = format!("    <testcase classname=\"{class}\" name=\"{}\"", xml(name));
        match wrong {
            None => put(out, format_args!("{begin} time=\"{time}\"/>\n")),
            Some((kind, wrong)) => put(
                out,
                format_args!(
                    "{begin} time=\"{time}\">\n      <{kind} message=\"{}\"/>\n    </testcase>\n",
                    xml(wrong)
                ),
            ),
        }
    };
    if let Some(error) = &step.error {
        case("an answer", Some(("error", error)));
    }
    for check in &step.checks {
        case(&check.name, check.found.as_ref().map(|found| ("failure", found)));
    }
    if let Some(why) = &step.skipped {
        case("its turn", Some(("skipped", why)));
    }
    out.push_str("  </testsuite>\n");
}

fn points(step: &Judged) -> usize {
    step.checks.len() + usize::from(step.error.is_some()) + usize::from(step.skipped.is_some())
}

fn failures(step: &Judged) -> usize {
    step.checks.iter().filter(|check| check.found.is_some()).count()
}

fn seconds(ns: u64) -> String {
    format!("{:.6}", ns as f64 / 1e9)
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to memory cannot fail");
}

/// A description is one line; `#` would begin a directive.
fn tap_escaped(text: &str) -> String {
    one_line(text).replace('\\', "\\\\").replace('#', "\\#")
}

/// What could command a terminal stands as its number.
fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => out.push(' '),
            c if is_command(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// Whether a terminal does something for it, or turns the letters around, instead of showing it.
fn is_command(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A double-quoted scalar: JSON's strings are among them.
fn yaml(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    for c in serde_json::Value::from(text).to_string().chars() {
        match c {
            c if is_command(c) => put(&mut out, format_args!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

/// For an attribute; what XML cannot hold at all becomes U+FFFD.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            '\t' => out.push_str("&#9;"),
            '\0'..' ' | '\u{fffe}' | '\u{ffff}' => out.push(char::REPLACEMENT_CHARACTER),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn steps() -> Vec<Judged> {
        let check = |name: &str, found: Option<&str>| JudgedCheck {
            name: name.to_owned(),
            found: found.map(str::to_owned),
        };
        vec![
            Judged {
                step: "login".to_owned(),
                took_ns: Some(1_500_000),
                checks: vec![
                    check("status 200", None),
                    check("text \"#1\"", Some("the body is \"<a>\"")),
                ],
                ..Judged::default()
            },
            Judged {
                step: "buy".to_owned(),
                error: Some("connection refused".to_owned()),
                ..Judged::default()
            },
            Judged {
                step: "pay".to_owned(),
                skipped: Some("`buy` ended the round".to_owned()),
                ..Judged::default()
            },
        ]
    }

    #[test]
    fn tap_is_version_13() {
        assert_eq!(
            tap(&steps()),
            "TAP version 13\n1..4\nok 1 - login: status 200\nnot ok 2 - login: text \"\\#1\"\n  \
             ---\n  message: \"the body is \\\"<a>\\\"\"\n  duration_ms: 1.500\n  ...\nnot ok 3 - \
             buy: an answer\n  ---\n  message: \"connection refused\"\n  ...\nok 4 - \
             pay # SKIP `buy` ended the round\n"
        );
        assert_eq!(tap(&[]), "TAP version 13\n1..0\n");
    }

    #[test]
    fn tap_commands_no_terminal() {
        let check = |found: &str| JudgedCheck {
            name: "text \u{1b}[31mred".to_owned(),
            found: Some(found.to_owned()),
        };
        let checks = vec![check("\u{1b}[2J\u{9b}\u{202e}")];
        let step = "a\tb\u{7}".to_owned();
        let told = tap(&[Judged { step, checks, ..Judged::default() }]);
        assert!(told.contains("not ok 1 - a b\\\\u{7}: text \\\\u{1b}[31mred\n"), "{told}");
        assert!(told.contains("message: \"\\u001b[2J\\u009b\\u202e\"\n"), "{told}");
        assert!(bail_out("no \u{1b}[1m server").ends_with("Bail out! no \\u{1b}[1m server\n"));
    }

    #[test]
    fn junit_has_a_case_for_each_check() {
        let expected = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="shop" tests="4" failures="1" errors="1" skipped="1" T>
  <testsuite name="login" tests="2" failures="1" errors="0" skipped="0" T>
    <testcase classname="shop.login" name="status 200" T/>
    <testcase classname="shop.login" name="text &quot;#1&quot;" T>
      <failure message="the body is &quot;&lt;a&gt;&quot;"/>
    </testcase>
  </testsuite>
  <testsuite name="buy" tests="1" failures="0" errors="1" skipped="0" time="0.000000">
    <testcase classname="shop.buy" name="an answer" time="0.000000">
      <error message="connection refused"/>
    </testcase>
  </testsuite>
  <testsuite name="pay" tests="1" failures="0" errors="0" skipped="1" time="0.000000">
    <testcase classname="shop.pay" name="its turn" time="0.000000">
      <skipped message="`buy` ended the round"/>
    </testcase>
  </testsuite>
</testsuites>
"#
        .replace(" T", " time=\"0.001500\"");
        assert_eq!(junit("shop", &steps()), expected);
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_lines_of_a_report(text in "(\\PC|[\n\r\t<>&\"#\\x00]){0,20}") {
            let found = Some(text.clone());
            let checks = vec![JudgedCheck { name: text.clone(), found }];
            let steps = [Judged { step: text, checks, ..Judged::default() }];
            prop_assert_eq!(tap(&steps).lines().count(), 6);
            let xml = junit("s", &steps);
            prop_assert_eq!(xml.lines().count(), 8);
            prop_assert!(!xml.contains('\0'));
        }
    }
}
