//! A search for people: a line a try while it goes on, then a table of them and the capacity. Pure.

use drom_load::{
    Threshold,
    capacity::{Capacity, Ended, FULL_MIN, Verdict, Wall},
};
use drom_report::format::{self, number_of, percent_over, three};

use super::{
    super::{
        checks::State,
        text::{Paint, broken, row as titled, si_count, target, time_us, who},
    },
    Row, Told,
};

/// Of a line of the table, and where reasons below it begin: under the state.
const LINE_WIDTH: usize = 59;
const REASONS_AT: usize = 21;
/// Upper end over lower.
const WIDE: f64 = 1.2;

/// On a terminal of `width` columns what is too long goes on below itself.
pub fn render(told: &Told<'_>, paint: Paint, width: Option<usize>) -> String {
    let heading = heading(told).into_iter();
    let mut lines: Vec<String> =
        heading.flat_map(|(title, text)| broken(paint, title, &text, width)).collect();
    lines.push(String::new());
    if !told.rows.is_empty() {
        lines.push(paint.dim(&table_head()));
        lines.extend(told.rows.iter().flat_map(|row| {
            let reasons = why(row, told.asked.conditions).join(", ");
            with_reasons(&line(row, paint), &reasons, width)
        }));
        lines.push(String::new());
    }
    let mut words = words(told).into_iter();
    lines.extend(words.next().map(|first| titled(paint, "Capacity", &paint.bold(&first))));
    lines.extend(words.flat_map(|more| broken(paint, "", &more, width)));
    lines.extend(notes(told).iter().flat_map(|note| broken(paint, "Note", note, width)));
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Of a try that just ended.
pub fn progress(
    row: &Row,
    number: usize,
    conditions: &[Threshold],
    width: Option<usize>,
) -> String {
    let plain = Paint::none();
    let begin = format!("try {number:<3}");
    let width = width.map(|width| width.saturating_sub(begin.len()));
    let lines = with_reasons(&line(row, plain), &why(row, conditions).join(", "), width);
    let below = lines[1..].iter().map(|more| format!("\n{:1$}{more}", "", begin.len()));
    format!("{begin}{}{}", lines[0], below.collect::<String>())
}

/// Beside the figures where there is room, else below them.
fn with_reasons(line: &str, reasons: &str, width: Option<usize>) -> Vec<String> {
    let room = width.unwrap_or(usize::MAX);
    if reasons.is_empty() {
        return vec![line.trim_end().to_owned()];
    }
    if LINE_WIDTH + 2 + reasons.chars().count() <= room {
        return vec![format!("{line}  {reasons}")];
    }
    let room = room.saturating_sub(REASONS_AT).max(20);
    let below = drom_report::broken(reasons, room, room);
    let below = below.iter().map(|text| " ".repeat(REASONS_AT) + text);
    [line.to_owned()].into_iter().chain(below).collect()
}

/// Titles and what stands behind them.
fn heading(told: &Told<'_>) -> Vec<(&'static str, String)> {
    let plan = told.asked.plan;
    let conditions = told.asked.conditions.iter().map(|one| one.expression.as_str());
    let threads = number_of(plan.threads as usize, "thread");
    let clients = format!("{}, {threads}", who(plan, plan.connections));
    let closed = told.found.closed_rps.map_or_else(String::new, |rps| {
        let used = told.found.closed_connections;
        let over = match used < plan.connections {
            true => format!(" over {}", who(plan, used)),
            false => String::new(),
        };
        format!("; a closed loop{over} before it reached {}", a_second(told, Some(rps)))
    });
    let stopped = if told.found.interrupted { ", stopped early" } else { "" };
    let took = format::time(told.found.took.as_secs_f64());
    let tries = if told.rows.len() == 1 { "try" } else { "tries" };
    vec![
        target(told.url, plan),
        ("Conditions", conditions.collect::<Vec<_>>().join(", ")),
        ("Load", format!("open loop over {clients}{closed}")),
        ("Search", format!("{took}{stopped}, {} {tries}", told.rows.len())),
    ]
}

fn table_head() -> String {
    format!("{:>12} {:>6}  {:<6} {:>10} {:>10} {:>9}", "rate", "for", "", "p50", "p99", "failed")
}

/// The figures of a try, in [`LINE_WIDTH`] columns.
fn line(row: &Row, paint: Paint) -> String {
    let tried = row.attempt.tried;
    let rate = si_count(tried.rate_rps) + "/s";
    let length = match tried.duration.as_secs_f64() {
        short if short < 1.0 => format!("{short:.2} s"),
        long => format!("{} s", three(long)),
    };
    let state = match tried.ended {
        Ended::Held => paint.dress_state(State::Ok, "held  "),
        Ended::Failed => paint.dress_state(State::Failed, "failed"),
        Ended::Client | Ended::Connections => paint.dress_state(State::Warning, "client"),
    };
    let time = |us: Option<f64>| us.map_or("-".to_owned(), time_us);
    let failed = row.failed_share.map_or("-".to_owned(), |share| match share {
        share if share > 0.0 => format!("{} %", three(100.0 * share)),
        _ => "0".to_owned(),
    });
    let (p50, p99) = (time(row.p50_us), time(row.p99_us));
    format!("{rate:>12} {length:>6}  {state} {p50:>10} {p99:>10} {failed:>9}")
}

/// What a try did not keep, and whose fault that was.
fn why(row: &Row, conditions: &[Threshold]) -> Vec<String> {
    let mut why = Vec::new();
    match row.attempt.tried.ended {
        Ended::Held => return why,
        Ended::Client => why.push(format!("client: {}", row.client)),
        Ended::Connections => why.push("all connections were in use".to_owned()),
        Ended::Failed => {}
    }
    let seen = &row.attempt.seen;
    if seen.fails {
        why.push("over 1 % failed".to_owned());
    }
    let missed = conditions.iter().zip(&seen.judged).filter(|(_, judged)| !judged.met);
    why.extend(missed.map(|(condition, judged)| match judged.value {
        Some(_) => format!("not {}", condition.expression),
        None => format!("{} not measured", condition.expression),
    }));
    if seen.unsent_share > 0.01 {
        why.push(format!("{} % not sent", percent_over(seen.unsent_share)));
    }
    if let Some(share) = seen.behind_share {
        why.push(format!("{} % answered after it", percent_over(share)));
    }
    if seen.mute > 0 {
        why.push(format!("{} had no answer", number_of(seen.mute, "connection")));
    }
    why.extend(seen.growth.map(|growth| format!("later by {} each second", time_us(growth * 1e6))));
    why
}

/// The answer; its first line alone says what counts.
fn words(told: &Told<'_>) -> Vec<String> {
    let capacity = told.found.capacity;
    let rate = a_second(told, capacity.rate_rps);
    let ends = (a_second(told, capacity.lower_rps), a_second(told, capacity.upper_rps));
    match capacity.verdict {
        Verdict::Found => {
            vec![rate, format!("95 % interval {} to {}", ends.0, ends.1)]
        }
        Verdict::AtLeast(wall) => {
            vec![format!("at least {rate}"), reason(told, wall)]
        }
        Verdict::NoneHeld => none_held(told),
        Verdict::Unknown if told.rows.is_empty() => vec!["not known: nothing was tried".to_owned()],
        Verdict::Unknown if told.found.broken.is_some() => {
            let answered = told.rows.iter().any(|row| row.p50_us.is_some());
            let what = if answered { "answered any more" } else { "answered a single request" };
            vec![format!("not known: nobody {what} before a rate held")]
        }
        Verdict::Unknown => vec![
            "not known: the client was the limit in every try".to_owned(),
            "more connections (-c), threads (-t) or another machine may do it".to_owned(),
        ],
    }
}

/// A rate of what is counted.
fn a_second(told: &Told<'_>, rps: Option<f64>) -> String {
    let number = rps.map_or("-".to_owned(), si_count);
    if told.counts_rounds() { number + " rounds/s" } else { number + "/s" }
}

fn reason(told: &Told<'_>, wall: Wall) -> String {
    match wall {
        Wall::Client => "the client was the limit: more threads (-t) or another machine to load \
                         from may find more"
            .to_owned(),
        Wall::Connections => {
            let all = match told.asked.plan.connections {
                1 => "the only one was".to_owned(),
                all => format!("all {} were", who(told.asked.plan, all)),
            };
            format!("{all} in use, and the server was not seen to be full: more (-c) may find more")
        }
        Wall::Bound => {
            "every try held at the highest rate that may be tried (--capacity-max)".to_owned()
        }
        Wall::Gone => "then there was no server any more: what it takes is not known".to_owned(),
        Wall::Time if told.found.interrupted => "nothing had failed when it was stopped".to_owned(),
        Wall::Time => {
            "the time was over before a try failed (--capacity-time, --capacity-start)".to_owned()
        }
    }
}

fn none_held(told: &Told<'_>) -> Vec<String> {
    // Of several at the lowest rate the last that says most: one without an answer says little.
    let by_rate = |a: &&Row, b: &&Row| {
        let rates = a.attempt.tried.rate_rps.total_cmp(&b.attempt.tried.rate_rps);
        rates.then(b.p99_us.is_some().cmp(&a.p99_us.is_some()))
    };
    let lowest = told.rows.iter().rev().filter(|row| row.attempt.tried.ended != Ended::Held);
    let Some(lowest) = lowest.min_by(by_rate) else { return Vec::new() };
    let rate = a_second(told, Some(lowest.attempt.tried.rate_rps));
    let any_more = if told.found.capacity.outdated > 0 { " any more" } else { "" };
    let mut words = vec![
        format!("none{any_more}: no rate held, the lowest tried was {rate}"),
        format!("there: {}", why(lowest, told.asked.conditions).join(", ")),
    ];
    if lowest.attempt.tried.rate_rps > told.asked.min_rps && !told.found.interrupted {
        words.push(
            "the time was over before a lower one (--capacity-time, --capacity-start)".into(),
        );
    }
    words
}

/// An interval that is wide for want of tries.
fn too_few(capacity: Capacity) -> Option<String> {
    let (lower, upper) = capacity.lower_rps.zip(capacity.upper_rps)?;
    (capacity.full_tries < FULL_MIN && upper > WIDE * lower).then(|| {
        format!(
            "the time was enough for {} of the {FULL_MIN} tries of full length that tell it \
             closely: give it more (--capacity-time)",
            capacity.full_tries
        )
    })
}

/// A server that is found over these connections, and gains by each of them.
fn not_quite_full(told: &Told<'_>) -> Option<String> {
    let (fewer, share) = told.found.fewer.and_then(|fewer| fewer.lost())?;
    let plan = told.asked.plan;
    (told.found.capacity.verdict == Verdict::Found).then(|| {
        format!(
            "all {} were in use above it, and {fewer} carried {} % less: it is the capacity over \
             so many, and more (-c) may find more",
            who(plan, plan.connections),
            percent_over(share)
        )
    })
}

fn notes(told: &Told<'_>) -> Vec<String> {
    let of = |is: &dyn Fn(&&Row) -> bool| told.rows.iter().filter(is).count();
    let mut notes = Vec::new();
    if let Some(silent) = told.found.silent {
        let silent = format::time(silent.as_secs_f64());
        notes.push(format!("when it was stopped the server had answered nothing for {silent}"));
    }
    let capacity = told.found.capacity;
    let mute = told.mute();
    if mute > 0 {
        let of = who(told.asked.plan, told.asked.plan.connections);
        notes.push(format!(
            "doubtful: {mute} of {of} had no answer while others had many. The server serves fewer \
             at once, and whether a try meets the others depends on its length: search with fewer \
             (-c {})",
            told.asked.plan.connections.saturating_sub(mute as u32).max(1)
        ));
    } else if capacity.outdated > 0 {
        notes.push(format!(
            "the server got worse: what held in the first {} tries did not any more, and they \
             count for nothing",
            capacity.outdated
        ));
    } else if capacity.failed_last > 0 && capacity.verdict == Verdict::Found {
        notes.push(format!(
            "doubtful: the last {} tries failed. The server may have got worse, which a longer \
             search (--capacity-time) would tell",
            capacity.failed_last
        ));
    }
    notes.extend(too_few(capacity));
    notes.extend(not_quite_full(told));
    let restless = of(&|row| !row.attempt.came_to_rest);
    if restless > 0 {
        notes.push(format!(
            "after {restless} of the tries the server was still busy when the next one began"
        ));
    }
    let doubtful = of(&|row| !row.doubts.is_empty());
    if doubtful > 0 {
        let mut names: Vec<_> = told.rows.iter().flat_map(|row| row.doubts.clone()).collect();
        names.sort_unstable();
        names.dedup();
        notes.push(format!("doubtful: in {doubtful} tries failed: {}", names.join(", ")));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_is_wide_for_want_of_tries_says_so() {
        let capacity = |full_tries, upper| Capacity {
            verdict: Verdict::Found,
            rate_rps: Some(12.0),
            lower_rps: Some(10.0),
            upper_rps: Some(upper),
            outdated: 0,
            failed_last: 0,
            full_tries,
        };
        let said = too_few(capacity(4, 19.0)).expect("four tries");
        assert!(said.contains("4 of the 8 tries") && said.contains("--capacity-time"), "{said}");
        assert_eq!((too_few(capacity(8, 19.0)), too_few(capacity(4, 11.0))), (None, None));
    }
}
