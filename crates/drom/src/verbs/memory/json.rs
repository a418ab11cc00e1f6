//! What was seen, for a program: every size in bytes.

use drom_observe::{Segments, smaps::Pages};
use serde_json::{Map, Value, json};

use super::{
    Told,
    growth::{Course, Figure, Growth, Point},
    look::{Look, Member},
    text::{Wants, all_segments, named},
};

/// Keys are added, never renamed.
const SCHEMA: &str = "drom-memory/1";

pub fn render(told: &Told, wants: Wants) -> String {
    let mut document = Map::new();
    document.insert("schema".to_owned(), SCHEMA.into());
    document.insert("version".to_owned(), env!("CARGO_PKG_VERSION").into());
    document.insert("of".to_owned(), told.name.as_str().into());
    if let Some(look) = &told.look {
        put(&mut document, named(&look.sum()));
        document.insert("processes".to_owned(), processes(look));
        document.insert("hidden".to_owned(), look.hidden.into());
    }
    if let Some(peak) = told.kernel_peak_bytes {
        document.insert("kernel_peak_rss".to_owned(), peak.into());
    }
    if let Some(segments) = &told.segments {
        if wants.segments {
            document.insert("segments".to_owned(), by_segment(segments));
        }
        if wants.libraries {
            document.insert("files".to_owned(), by_file(segments));
        }
    }
    if let Some(growth) = &told.growth {
        let mut grown = growth_of(growth);
        if let Some(seen) = told.per_request {
            grown["requests"] = seen.requests.into();
            grown["uss_bytes_per_request"] = seen.bytes_per_request().into();
        }
        document.insert("growth".to_owned(), grown);
    }
    drom_report::pretty(&Value::Object(document))
}

fn put(object: &mut Map<String, Value>, figures: impl IntoIterator<Item = (&'static str, u64)>) {
    object.extend(figures.into_iter().map(|(name, bytes)| (name.to_owned(), bytes.into())));
}

fn processes(look: &Look) -> Value {
    let process = |member: &Member| {
        let mut object = Map::new();
        object.insert("pid".to_owned(), member.pid.into());
        object.insert("parent".to_owned(), member.parent.into());
        object.insert("command".to_owned(), member.command.as_str().into());
        put(&mut object, named(&member.footprint));
        Value::Object(object)
    };
    look.members.iter().map(process).collect()
}

fn by_segment(segments: &Segments) -> Value {
    let part = |(segment, pages): (drom_observe::Segment, Pages)| {
        let mut object = of_pages(&pages);
        object.insert("segment".to_owned(), segment.name().into());
        Value::Object(object)
    };
    all_segments(segments).map(part).collect()
}

fn by_file(segments: &Segments) -> Value {
    let part = |(file, pages): (&String, &Pages)| {
        let mut object = of_pages(pages);
        object.insert("file".to_owned(), file.as_str().into());
        Value::Object(object)
    };
    segments.by_file.iter().map(part).collect()
}

fn of_pages(pages: &Pages) -> Map<String, Value> {
    let footprint = drom_observe::Footprint { pages: *pages, ..Default::default() };
    let of_mapping = named(&footprint).into_iter().take_while(|(name, _)| *name != "size");
    let mut object = Map::new();
    put(&mut object, of_mapping);
    object
}

fn growth_of(growth: &Growth) -> Value {
    let mut object = course(&growth.whole);
    let process = |(pid, (command, seen)): (&i32, &(String, Course))| {
        let mut object = course(seen);
        object.insert("pid".to_owned(), (*pid).into());
        object.insert("command".to_owned(), command.as_str().into());
        Value::Object(object)
    };
    let processes: Value = growth.by_process.iter().map(process).collect();
    object.insert("processes".to_owned(), processes);
    object.insert("samples".to_owned(), growth.whole.points.iter().map(sample).collect());
    Value::Object(object)
}

fn course(course: &Course) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("looks".to_owned(), course.looks.into());
    object.insert("seconds".to_owned(), course.passed_s().into());
    for figure in Figure::ALL {
        let at = figure as usize;
        let seen = json!({
            "first": course.first.bytes[at],
            "last": course.last.bytes[at],
            "max": course.max[at],
            "bytes_per_second": course.slope(figure),
        });
        object.insert(figure.name().to_owned(), seen);
    }
    object
}

fn sample(point: &Point) -> Value {
    let mut object = Map::new();
    object.insert("at_s".to_owned(), point.at_s.into());
    put(&mut object, Figure::ALL.map(|figure| (figure.name(), point.bytes[figure as usize])));
    Value::Object(object)
}
