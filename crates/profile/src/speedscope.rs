//! A profile as a file of speedscope's (<https://www.speedscope.app>): its stacks, with the seconds
//! that each stands for. Pure.

use std::collections::HashMap;

use serde::Serialize;

use crate::profile::Profile;

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'p> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: &'static str,
    name: &'p str,
    shared: Shared<'p>,
    profiles: [Sampled<'p>; 1],
}

#[derive(Serialize)]
struct Shared<'p> {
    frames: Vec<Named<'p>>,
}

/// Lines are left out: a sub is one box, wherever in it a sample was.
#[derive(Serialize)]
struct Named<'p> {
    name: &'p str,
    #[serde(skip_serializing_if = "str::is_empty")]
    file: &'p str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sampled<'p> {
    r#type: &'static str,
    name: &'p str,
    unit: &'static str,
    start_value: f64,
    end_value: f64,
    samples: Vec<Vec<usize>>,
    weights: Vec<f64>,
}

/// `name` is the program's.
#[must_use]
pub fn speedscope(profile: &Profile, name: &str) -> String {
    let each_s = profile.taken.each_s();
    let mut numbers: HashMap<(&str, &str), usize> = HashMap::new();
    let (mut frames, mut samples, mut weights) = (Vec::new(), Vec::new(), Vec::new());
    for (stack, count) in profile.stacks() {
        let numbered = stack.into_iter().map(|frame| {
            *numbers.entry((&frame.name, &frame.file)).or_insert_with(|| {
                frames.push(Named { name: &frame.name, file: &frame.file });
                frames.len() - 1
            })
        });
        samples.push(numbered.collect());
        weights.push(count as f64 * each_s);
    }
    let end_value = weights.iter().sum();
    let sampled = Sampled {
        r#type: "sampled",
        name,
        unit: "seconds",
        start_value: 0.0,
        end_value,
        samples,
        weights,
    };
    let shared = Shared { frames };
    let file = File { schema: SCHEMA, exporter: "drom", name, shared, profiles: [sampled] };
    serde_json::to_string(&file).expect("numbers and strings always have a JSON form") + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::profile::made::at_two_lines;

    #[test]
    fn a_sub_is_one_frame_and_weights_are_seconds() {
        let profile = at_two_lines();
        let file: Value = serde_json::from_str(&speedscope(&profile, "a.pl")).expect("JSON");
        let frames = file["shared"]["frames"].as_array().expect("frames");
        assert_eq!((frames.len(), &frames[1]["name"]), (2, &"A::b".into()));
        let sampled = &file["profiles"][0];
        assert_eq!(sampled["samples"], serde_json::json!([[0, 1], [0, 1]]));
        assert_eq!(sampled["weights"], serde_json::json!([1.5, 0.5]));
        assert_eq!((&sampled["endValue"], &sampled["unit"]), (&2.0.into(), &"seconds".into()));
    }
}
