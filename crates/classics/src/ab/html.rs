//! ab's report as an HTML table (`-w`), whose "Processing" is the difference of the others'
//! figures, as it was. Pure.

use super::{
    Attributes, Options,
    figures::{Figures, round_ms},
};

/// The same counters as in words; no deviations, medians and percentiles.
#[must_use]
pub fn report(options: &Options, figures: &Figures) -> String {
    let Some(attributes) = &options.html else { return String::new() };
    let mut table = Table { attributes, text: format!("\n\n<table {}>\n", attributes.table) };
    what(&mut table, options, figures);
    counts(&mut table, options, figures);
    rates(&mut table, options, figures);
    if !figures.times.is_empty() {
        times(&mut table, figures);
    }
    table.text + "</table>\n"
}

fn what(table: &mut Table<'_>, options: &Options, figures: &Figures) {
    table.put("Server Software:", &figures.server);
    table.put("Server Hostname:", options.url.host.trim_matches(['[', ']']));
    table.put("Server Port:", options.url.port);
    table.put("Document Path:", &options.url.path);
    if options.variable_length {
        table.put("Document Length:", "Variable");
    } else {
        table.put("Document Length:", format!("{} bytes", figures.document_bytes));
    }
    table.put("Concurrency Level:", options.concurrency);
}

fn counts(table: &mut Table<'_>, options: &Options, figures: &Figures) {
    table.put("Time taken for tests:", format!("{:.3} seconds", figures.taken_s));
    table.put("Complete requests:", figures.done);
    table.put("Failed requests:", figures.failed);
    if figures.failed > 0 {
        let Figures { connect, length, exceptions, .. } = figures;
        let (row, cell) = (&table.attributes.row, &table.attributes.cell);
        table.text += &format!(
            "<tr {row}><td colspan=4 {cell} >   (Connect: {connect}, Length: {length}, \
             Exceptions: {exceptions})</td></tr>\n"
        );
    }
    if figures.non_2xx > 0 {
        table.put("Non-2xx responses:", figures.non_2xx);
    }
    if options.keepalive {
        table.put("Keep-Alive requests:", figures.kept);
    }
    table.put("Total transferred:", format!("{} bytes", figures.read_bytes));
    if options.body.is_some() {
        table.put("Total body sent:", figures.sent_bytes);
    }
    table.put("HTML transferred:", format!("{} bytes", figures.body_bytes));
}

fn rates(table: &mut Table<'_>, options: &Options, figures: &Figures) {
    if figures.taken_s <= 0.0 {
        return;
    }
    let rate = |bytes: u64| bytes as f64 / 1024.0 / figures.taken_s;
    table.put("Requests per second:", format!("{:.2}", figures.done as f64 / figures.taken_s));
    table.put("Transfer rate:", format!("{:.2} kb/s received", rate(figures.read_bytes)));
    if options.body.is_some() {
        let (row, cell) = (&table.attributes.row, &table.attributes.cell);
        let both = figures.read_bytes + figures.sent_bytes;
        for (bytes, what) in [(figures.sent_bytes, "sent"), (both, "total")] {
            table.text += &format!(
                "<tr {row}><td colspan=2 {cell}>&nbsp;</td>\
                 <td colspan=2 {cell}>{:.2} kb/s {what}</td></tr>\n",
                rate(bytes)
            );
        }
    }
}

fn times(table: &mut Table<'_>, figures: &Figures) {
    let Attributes { row, cell, .. } = table.attributes;
    let (connect, total) = (figures.connects(), figures.totals());
    let count = figures.times.len() as i64;
    // The sum is rounded to milliseconds, then divided.
    let connect_sum: i64 = figures.times.iter().map(|times| times.connect_us).sum();
    let total_sum: i64 = figures.times.iter().map(|times| times.total_us).sum();
    let connects = [connect.min, round_ms(connect_sum) / count, connect.max];
    let totals = [total.min, round_ms(total_sum) / count, total.max];
    let between = [0, 1, 2].map(|at| totals[at] - connects[at]);
    table.text += &format!(
        "<tr {row}><th {cell} colspan=4>Connection Times (ms)</th></tr>\n\
         <tr {row}><th {cell}>&nbsp;</th> <th {cell}>min</th>   <th {cell}>avg</th>   \
         <th {cell}>max</th></tr>\n"
    );
    for (name, row) in [("Connect:", connects), ("Processing:", between), ("Total:", totals)] {
        table.put_times(name, row);
    }
}

struct Table<'a> {
    attributes: &'a Attributes,
    text: String,
}

impl Table<'_> {
    fn put(&mut self, name: &str, value: impl std::fmt::Display) {
        let Attributes { row, cell, .. } = self.attributes;
        self.text += &format!(
            "<tr {row}><th colspan=2 {cell}>{name}</th><td colspan=2 {cell}>{value}</td></tr>\n"
        );
    }

    fn put_times(&mut self, name: &str, [min, mean, max]: [i64; 3]) {
        let Attributes { row, cell, .. } = self.attributes;
        self.text += &format!(
            "<tr {row}><th {cell}>{name}</th><td {cell}>{min:>5}</td><td {cell}>{mean:>5}</td>\
             <td {cell}>{max:>5}</td></tr>\n"
        );
    }
}
