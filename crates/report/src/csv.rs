//! Tidy data: one row per slice, one column per variable; every attempt is there, also the ones
//! that were measured again.

use drom_store::{Block, Run, Slice};

use crate::format::plain;

const COLUMNS: &str = "run,group,block,round,position,attempt,used,variant,slice,begin_s,duration_s,\
    sent,ok,failed,in_flight,connected,rps,mean_ms,p50_ms,p99_ms,server_cpu_s,\
    server_cpu_us_per_request,client_cpu_s,workers,worker_pss_bytes,tree_pss_bytes,steal_s,\
    foreign_cpu_s,flags";

#[must_use]
pub fn csv(run: &Run) -> String {
    let mut out = format!("{COLUMNS}\n");
    for block in &run.blocks {
        for slice in &block.slices {
            out += &row(run, block, slice).join(",");
            out.push('\n');
        }
    }
    out
}

fn row(run: &Run, block: &Block, slice: &Slice) -> Vec<String> {
    let answered = (slice.ok + slice.failed).max(1) as f64;
    let codes: Vec<&str> = slice.flags.iter().map(|flag| flag.code.as_str()).collect();
    let p50_ns = run.latency(slice).quantile_ns(0.5);
    let client: f64 = slice.client_cpu_s.iter().sum();
    vec![
        quoted(&run.name()),
        quoted(&block.group),
        block.index.to_string(),
        slice.round.to_string(),
        slice.position.to_string(),
        slice.attempt.to_string(),
        slice.used.to_string(),
        quoted(&slice.variant),
        slice.id.clone(),
        format!("{:.6}", slice.begin_s),
        format!("{:.6}", slice.duration_s),
        slice.sent.to_string(),
        slice.ok.to_string(),
        slice.failed.to_string(),
        slice.in_flight.to_string(),
        slice.connected.to_string(),
        format!("{:.3}", slice.ok as f64 / slice.duration_s.max(1e-9)),
        format!("{:.6}", slice.mean_ns * 1e-6),
        format!("{:.6}", p50_ns as f64 * 1e-6),
        format!("{:.6}", slice.p99_ns as f64 * 1e-6),
        format!("{:.6}", slice.server_cpu_s),
        format!("{:.3}", 1e6 * slice.server_cpu_s / answered),
        format!("{client:.6}"),
        slice.workers.to_string(),
        slice.worker_pss_bytes.to_string(),
        slice.tree_pss_bytes.to_string(),
        format!("{:.3}", slice.steal_s),
        format!("{:.3}", slice.foreign_cpu_s),
        codes.join(" "),
    ]
}

/// RFC 4180, on one line.
#[must_use]
pub fn quoted(text: &str) -> String {
    let text = plain(text);
    if text.contains([',', '"']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn commas_and_quotes_are_quoted() {
        assert_eq!(super::quoted("a, \"b\""), "\"a, \"\"b\"\"\"");
        assert_eq!(super::quoted("plain"), "plain");
    }
}
