//! A snapshot laid out: the machine above, Drom's servers, then processes, in lines of a given
//! width. What is alarming has its tone; `--once` prints the same lines without tones. Pure.

use drom_observe::{mounts::Mount, vitals::Alert};

use super::{
    choose::{Choice, Sort},
    figures::{bytes, cpu_time, elapsed, percent, signed},
    lines::{Column, Item, Line, Tone, table, wrapped},
    model::{Machine, Process, Running, Server, Snapshot, Worker},
};

/// Under a heading of this width all figures of the machine stand.
const INDENT: usize = 8;
const BAR: usize = 20;
/// A request that runs so long is remarkable, or more than that.
const SLOW_S: f64 = 1.0;
const VERY_SLOW_S: f64 = 10.0;

/// Everything that is to be seen, as `--once` prints it; `rows` of processes at most.
pub fn whole(snapshot: &Snapshot, choice: &Choice, rows: usize, width: usize) -> String {
    let mut lines = machine(snapshot, width);
    for item in servers(&snapshot.servers, width) {
        lines.extend(item.lines);
    }
    lines.push(Line::new());
    let shown = &snapshot.processes[..rows.min(snapshot.processes.len())];
    lines.extend(processes(shown, choice.sort, width).into_iter().flat_map(|item| item.lines));
    let rest = snapshot.processes.len() - shown.len();
    if rest > 0 {
        let words = format!("and {rest} more: --rows {} shows them", snapshot.processes.len());
        lines.push(Line::of(words, Tone::Dim).cut(width));
    }
    if snapshot.processes.is_empty() {
        lines.push(Line::of("no process matches", Tone::Dim));
    }
    lines.iter().map(|line| line.text().trim_end().to_owned() + "\n").collect()
}

// ---- the machine --------------------------------------------------------------------------------

pub fn machine(snapshot: &Snapshot, width: usize) -> Vec<Line> {
    let machine = &snapshot.machine;
    let mut lines = wrapped("Load", INDENT, load(snapshot), width);
    lines.extend(wrapped("CPU", INDENT, cpu(machine), width));
    lines.extend(wrapped("Memory", INDENT, memory(machine), width));
    lines.extend(wrapped("Disks", INDENT, disks(machine), width));
    lines.extend(wrapped("Network", INDENT, network(machine), width));
    lines
}

/// As much of it as fits into so many lines: the first ones of each heading.
pub fn machine_in(snapshot: &Snapshot, width: usize, height: usize) -> Vec<Line> {
    let mut lines = machine(snapshot, width);
    if lines.len() > height {
        lines.retain(|line| !line.text().starts_with(' '));
    }
    lines.truncate(height);
    lines
}

/// A figure behind its name.
fn named(name: &str, figure: String) -> Line {
    Line::of(format!("{name} "), Tone::Dim).with(figure, Tone::Plain)
}

fn load(snapshot: &Snapshot) -> Vec<Line> {
    let machine = &snapshot.machine;
    let mut parts = Vec::new();
    if let Some(load) = machine.load {
        let is_much = load.one > machine.cores as f64;
        let tone = if is_much { Tone::Warning } else { Tone::Strong };
        let others = format!(" {:.2} {:.2}", load.five, load.fifteen);
        parts.push(Line::of(format!("{:.2}", load.one), tone).with(others, Tone::Plain));
    }
    let cores = drom_report::format::number_of(machine.cores, "core");
    let (count, running) = (snapshot.process_count, snapshot.running_count);
    parts.push(Line::of(cores, Tone::Plain));
    parts.push(Line::of(format!("{count} processes, {running} running"), Tone::Plain));
    parts.extend(machine.uptime_s.map(|seconds| named("up", days(seconds))));
    parts
}

fn days(seconds: f64) -> String {
    match seconds as u64 / 86_400 {
        0 => elapsed(seconds),
        days => format!("{days} d {} h", seconds as u64 / 3_600 % 24),
    }
}

fn cpu(machine: &Machine) -> Vec<Line> {
    let Some(cpu) = &machine.cpu else { return vec![Line::of("-", Tone::Dim)] };
    let busy = cpu.busy_percent();
    let states = [
        ("user", cpu.user_percent, 101.0),
        ("system", cpu.system_percent, 101.0),
        ("nice", cpu.nice_percent, 101.0),
        ("iowait", cpu.iowait_percent, 20.0),
        ("irq", cpu.irq_percent, 20.0),
        ("softirq", cpu.softirq_percent, 20.0),
        ("steal", cpu.steal_percent, 5.0),
        ("idle", cpu.idle_percent, 101.0),
    ];
    let mut parts = vec![bar(busy / 100.0, busy >= 90.0, format!("{} %", percent(busy)))];
    parts.extend(states.iter().map(|(name, share, limit)| {
        let tone = if share >= limit { Tone::Warning } else { Tone::Plain };
        Line::of(format!("{name} "), Tone::Dim).with(percent(*share), tone)
    }));
    parts
}

/// How much of something is taken.
fn bar(share: f64, is_much: bool, words: String) -> Line {
    let full = ((share * BAR as f64).round() as usize).min(BAR);
    let tone = if is_much { Tone::Alarm } else { Tone::Good };
    let line = Line::of("█".repeat(full), tone).with("░".repeat(BAR - full), Tone::Dim);
    line.with(format!(" {words}"), if is_much { Tone::Alarm } else { Tone::Strong })
}

fn memory(machine: &Machine) -> Vec<Line> {
    let Some(memory) = &machine.memory else { return vec![Line::of("-", Tone::Dim)] };
    let share = memory.used_bytes() as f64 / memory.total_bytes.max(1) as f64;
    let words = format!("{} of {}", bytes(memory.used_bytes()), bytes(memory.total_bytes));
    let mut parts = vec![
        bar(share, share >= 0.9, words),
        named("available", bytes(memory.available_bytes)),
        named("cached", bytes(memory.cached_bytes)),
    ];
    let tone = tone_of(memory.swap_alert());
    let swap = match memory.swap_total_bytes {
        0 => "none".to_owned(),
        total => format!("{} of {}{}", bytes(memory.swap_used_bytes()), bytes(total), mark(tone)),
    };
    parts.push(Line::of("swap ", Tone::Dim).with(swap, tone));
    parts
}

fn tone_of(alert: Alert) -> Tone {
    match alert {
        Alert::None => Tone::Plain,
        Alert::Warning => Tone::Warning,
        Alert::Alarm => Tone::Alarm,
    }
}

/// Without colours an alarm is seen, too.
fn mark(tone: Tone) -> &'static str {
    match tone {
        Tone::Warning => " !",
        Tone::Alarm => " !!",
        _ => "",
    }
}

/// The full ones first. Of memory that stands for a disk only what is in use.
fn disks(machine: &Machine) -> Vec<Line> {
    let is_used = |mount: &&Mount| !mount.kind.ends_with("tmpfs") || mount.used_share() >= 0.01;
    let mut mounts: Vec<_> = machine.mounts.iter().filter(is_used).collect();
    mounts
        .sort_by(|a, b| b.alert().cmp(&a.alert()).then(b.used_share().total_cmp(&a.used_share())));
    let mut parts: Vec<Line> = mounts
        .iter()
        .map(|mount| {
            let tone = tone_of(mount.alert());
            let path = drom_report::format::plain(&mount.path);
            let share = format!("{:.0} %{}", 100.0 * mount.used_share(), mark(tone));
            let size = format!(" of {}", bytes(mount.size_bytes));
            Line::of(format!("{path} "), Tone::Dim).with(share, tone).with(size, Tone::Plain)
        })
        .collect();
    if parts.is_empty() {
        parts.push(Line::of("-", Tone::Dim));
    }
    parts
}

/// The busy ones first, and no others.
fn network(machine: &Machine) -> Vec<Line> {
    let mut interfaces: Vec<_> = machine.network.iter().collect();
    let rate = |of: &super::model::Traffic| of.received_bytes_per_s + of.sent_bytes_per_s;
    interfaces.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    let mut parts: Vec<Line> = interfaces
        .iter()
        .filter(|of| rate(of) >= 1.0)
        .map(|of| {
            let rates = format!(
                "{}/s in {}/s out",
                bytes(of.received_bytes_per_s as u64),
                bytes(of.sent_bytes_per_s as u64)
            );
            named(&drom_report::format::plain(&of.interface), rates)
        })
        .collect();
    if parts.is_empty() {
        parts.push(Line::of("nothing comes or goes", Tone::Dim));
    }
    parts
}

// ---- servers ------------------------------------------------------------------------------------

const WORKER_COLUMNS: [Column; 12] = [
    figure("SLOT", 9),
    figure("PID", 0),
    figure("GEN", 8),
    Column { title: "STATE", rank: 0, is_text: true, is_open: false },
    figure("CONN", 7),
    figure("ANSWERS", 2),
    figure("BYTES", 6),
    figure("USS", 3),
    figure("PSS", 10),
    figure("GROWTH", 4),
    figure("PER REQ", 5),
    figure("CPU%", 1),
];

const fn figure(title: &'static str, rank: u8) -> Column {
    Column { title, rank, is_text: false, is_open: false }
}

/// A heading each, a head of the table, and the workers, with what they run below.
pub fn servers(servers: &[Server], width: usize) -> Vec<Item> {
    servers.iter().flat_map(|server| server_items(server, width)).collect()
}

fn server_items(server: &Server, width: usize) -> Vec<Item> {
    let mut items = vec![Item::line(Line::new())];
    let pid = Some(server.pid);
    items.push(Item { lines: heading(server, width), pid, ..Item::default() });
    if server.workers.is_empty() {
        return items;
    }
    let mut workers: Vec<&Worker> = server.workers.iter().collect();
    workers.sort_by(|a, b| b.elapsed_s().total_cmp(&a.elapsed_s()).then(a.slot.cmp(&b.slot)));
    let rows: Vec<_> = workers.iter().map(|worker| worker_row(worker)).collect();
    let mut lines = table(&WORKER_COLUMNS, "", &rows, width).into_iter();
    items.extend(lines.next().map(Item::head));
    for (worker, line) in workers.into_iter().zip(lines) {
        let mut lines = vec![line];
        lines.extend(worker.running.iter().flat_map(|running| run_lines(running, width)));
        items.push(Item { lines, pid: Some(worker.pid), ..Item::default() });
    }
    items
}

fn heading(server: &Server, width: usize) -> Vec<Line> {
    let mut lines = heading_parts(server, width + 2);
    // What follows stands below it, further in.
    lines.first_mut().iter_mut().for_each(|first| drop(first.0.remove(0)));
    lines.into_iter().map(|line| line.cut(width)).collect()
}

fn heading_parts(server: &Server, width: usize) -> Vec<Line> {
    let title = Line::of(format!("Drom server {}", server.pid), Tone::Strong);
    if let Some(error) = &server.error {
        let room = width.saturating_sub(2);
        let words = drom_report::broken(error, room, room).into_iter();
        let lines = words.map(|words| Line::of(format!("  {words}"), Tone::Warning).cut(width));
        return [Line::of("  ", Tone::Plain).with(title.text(), Tone::Strong)]
            .into_iter()
            .chain(lines)
            .collect();
    }
    let count = |state: &str| server.workers.iter().filter(|w| w.state == state).count();
    let workers = drom_report::format::number_of(server.workers.len(), "worker");
    let states = ["perl", "idle", "starting", "draining", "dying"];
    let states: Vec<String> = states
        .iter()
        .filter(|state| count(state) > 0)
        .map(|state| format!("{} {state}", count(state)))
        .collect();
    let mut parts = vec![title, named("generation", server.generation.to_string())];
    parts.extend(server.uptime_s.map(|seconds| named("up", days(seconds))));
    parts.push(Line::of(format!("{workers} ({})", states.join(", ")), Tone::Plain));
    let answers = drom_report::format::number_of(server.answers as usize, "answer");
    parts.push(Line::of(format!("{answers}, {}", bytes(server.answered_bytes)), Tone::Plain));
    if !server.cgi_pids.is_empty() {
        parts.push(Line::of(format!("{} CGI", server.cgi_pids.len()), Tone::Plain));
    }
    wrapped("", 2, parts, width)
}

fn worker_row(worker: &Worker) -> Vec<(String, Tone)> {
    let plain = |text: String| (text, Tone::Plain);
    let size = |size: Option<u64>| plain(size.map_or("-".to_owned(), bytes));
    let growth = worker.growth_bytes.map_or("-".to_owned(), signed);
    let per_request = worker.growth_bytes_per_request.map(|bytes| bytes.round() as i64);
    let per_request = per_request.map_or("-".to_owned(), signed);
    let state = match worker.state {
        "perl" => Tone::Good,
        "idle" => Tone::Dim,
        "dying" => Tone::Alarm,
        _ => Tone::Warning,
    };
    vec![
        plain(worker.slot.to_string()),
        plain(worker.pid.to_string()),
        plain(worker.generation.to_string()),
        (worker.state.to_owned(), state),
        plain(worker.connections.to_string()),
        plain(worker.answers.to_string()),
        plain(bytes(worker.answered_bytes)),
        size(worker.uss_bytes),
        size(worker.pss_bytes),
        plain(growth),
        plain(per_request),
        plain(worker.cpu_percent.map_or("-".to_owned(), percent)),
    ]
}

/// The request, who asked, since when; and where Perl is.
fn run_lines(running: &Running, width: usize) -> Vec<Line> {
    let slow = match running.elapsed_s {
        s if s >= VERY_SLOW_S => Tone::Alarm,
        s if s >= SLOW_S => Tone::Warning,
        _ => Tone::Plain,
    };
    let place = running.perl.as_ref().map_or("-".to_owned(), |place| {
        let (file, sub) = (short(&place.file, width / 2), sub_in_short(&place.sub));
        drom_report::format::plain(&format!("{file}:{} {sub}", place.line))
    });
    let parts = vec![
        Line::of(elapsed(running.elapsed_s), slow),
        Line::of(running.request.clone(), Tone::Strong),
        named("from", running.client.clone()),
        named("at", place),
    ];
    wrapped("  └─", 5, parts, width)
}

/// The package of a script's is made of its path, which is told anyway.
fn sub_in_short(sub: &str) -> &str {
    match sub.strip_prefix("ModPerl::ROOT::") {
        Some(rest) => rest.rsplit("::").next().unwrap_or(rest),
        None => sub,
    }
}

/// The end of a path says more than its beginning.
pub fn short(path: &str, width: usize) -> String {
    let length = path.chars().count();
    if length <= width.max(8) {
        return path.to_owned();
    }
    let end: String = path.chars().skip(length - width.max(8) + 1).collect();
    format!("…{end}")
}

// ---- processes ----------------------------------------------------------------------------------

const COLUMNS: [Column; 11] = [
    figure("PID", 0),
    Column { title: "USER", rank: 6, is_text: true, is_open: false },
    Column { title: "S", rank: 5, is_text: true, is_open: false },
    figure("THR", 9),
    figure("CPU%", 1),
    figure("TIME", 7),
    figure("RSS", 2),
    figure("PSS", 3),
    figure("USS", 4),
    figure("GROWTH", 8),
    Column { title: "COMMAND", rank: 0, is_text: true, is_open: true },
];

/// A view that has just begun has seen nothing grow.
const GROWTH: usize = 9;

/// The head of the table, then an item a process.
pub fn processes(processes: &[Process], sort: Sort, width: usize) -> Vec<Item> {
    let mut rows: Vec<_> = processes.iter().map(process_row).collect();
    // What a table is sorted by is in it.
    let mut columns = COLUMNS.to_vec();
    columns.iter_mut().filter(|c| c.title == sort.title()).for_each(|column| column.rank = 0);
    let has_grown = processes.iter().any(|process| process.growth_bytes.unwrap_or(0) != 0);
    if !has_grown && sort != Sort::Growth {
        columns.remove(GROWTH);
        rows.iter_mut().for_each(|row| drop(row.remove(GROWTH)));
    }
    let mut lines = table(&columns, sort.title(), &rows, width).into_iter();
    let mut items: Vec<Item> = lines.next().map(Item::head).into_iter().collect();
    let row =
        |(line, process): (Line, &Process)| Item { pid: Some(process.pid), ..Item::line(line) };
    items.extend(lines.zip(processes).map(row));
    items
}

fn process_row(process: &Process) -> Vec<(String, Tone)> {
    let plain = |text: String| (text, Tone::Plain);
    let size = |size: Option<u64>| match size {
        Some(size) => plain(bytes(size)),
        None => ("-".to_owned(), Tone::Dim),
    };
    let cpu = process.cpu_percent.unwrap_or(0.0);
    let cpu_tone = match cpu {
        c if c >= 50.0 => Tone::Warning,
        c if c < 0.05 => Tone::Dim,
        _ => Tone::Plain,
    };
    let state = match process.state {
        'R' => Tone::Good,
        'D' | 'Z' => Tone::Warning,
        _ => Tone::Dim,
    };
    let growth = match process.growth_bytes {
        None | Some(0) => ("-".to_owned(), Tone::Dim),
        Some(grown) => plain(signed(grown)),
    };
    vec![
        plain(process.pid.to_string()),
        (process.user.chars().take(10).collect(), Tone::Dim),
        (process.state.to_string(), state),
        (process.threads.to_string(), Tone::Dim),
        (percent(cpu), cpu_tone),
        plain(cpu_time(process.cpu_s)),
        plain(bytes(process.rss_bytes)),
        size(process.pss_bytes),
        size(process.uss_bytes),
        growth,
        plain(format!("{}{}", process.branch, process.command)),
    ]
}

#[cfg(test)]
pub mod tests {
    use drom_observe::vitals::{CpuTimes, LoadAverage, MachineMemory};

    use super::{
        super::model::{Place, Traffic},
        *,
    };

    pub fn process(pid: i32, command: &str) -> Process {
        Process {
            pid,
            parent: 1,
            user: "www-data".into(),
            state: 'S',
            threads: 1,
            cpu_percent: Some(12.34),
            cpu_s: 7.25,
            rss_bytes: 45_600_000,
            pss_bytes: Some(12_300_000),
            uss_bytes: None,
            growth_bytes: Some(4096),
            name: "perl".into(),
            command: command.into(),
            ..Process::default()
        }
    }

    fn server() -> Server {
        let running = Running {
            request: "GET /registry/hold.pl?token=MASKED HTTP/1.1".to_owned(),
            client: "192.0.2.7:40112".to_owned(),
            elapsed_s: 3.21,
            perl: Some(Place {
                file: "/srv/site/perl/hold.pl".to_owned(),
                line: 7,
                sub: "ModPerl::ROOT::hold::wait".to_owned(),
            }),
        };
        let worker = |slot, running| Worker {
            slot,
            pid: 4712 + slot as i32,
            state: "idle",
            generation: 2,
            answers: 120,
            perl_requests: 100,
            answered_bytes: 3_400_000,
            uss_bytes: Some(5_200_000),
            growth_bytes: Some(1_200_000),
            cpu_percent: Some(1.0),
            running,
            ..Worker::default()
        };
        let busy = Worker { state: "perl", ..worker(1, Some(running)) };
        Server {
            pid: 4711,
            uptime_s: Some(185.0),
            generation: 2,
            answers: 240,
            answered_bytes: 6_800_000,
            cgi_pids: vec![99],
            workers: vec![worker(0, None), busy],
            error: None,
        }
    }

    fn busy_machine() -> Machine {
        let none = CpuTimes::default();
        let mount = |path: &str, used_bytes| Mount {
            path: path.to_owned(),
            size_bytes: 100_000_000_000,
            used_bytes,
            available_bytes: 100_000_000_000 - used_bytes,
            ..Mount::default()
        };
        let load = LoadAverage { one: 2.5, five: 1.0, fifteen: 0.5, runnable: 1, threads: 300 };
        Machine {
            uptime_s: Some(93_600.0),
            cores: 2,
            load: Some(load),
            cpu: CpuTimes { user: 30, system: 10, idle: 54, steal: 6, ..none }.shares_since(none),
            memory: Some(MachineMemory {
                total_bytes: 8_000_000_000,
                free_bytes: 1_000_000_000,
                available_bytes: 6_000_000_000,
                cached_bytes: 3_000_000_000,
                swap_total_bytes: 1_000_000_000,
                swap_free_bytes: 250_000_000,
            }),
            mounts: vec![mount("/", 45_000_000_000), mount("/boot", 91_000_000_000)],
            network: vec![
                Traffic { interface: "lo".into(), ..Traffic::default() },
                Traffic {
                    interface: "eth0".into(),
                    received_bytes_per_s: 12_000.0,
                    sent_bytes_per_s: 3_000.0,
                },
            ],
        }
    }

    pub fn snapshot() -> Snapshot {
        Snapshot {
            machine: busy_machine(),
            servers: vec![server()],
            process_count: 214,
            running_count: 1,
            processes: vec![process(4712, "perl a.pl"), process(1, "/sbin/init")],
            interval_s: 2.0,
            ..Snapshot::default()
        }
    }

    fn at(width: usize) -> String {
        whole(&snapshot(), &Choice::default(), 20, width)
    }

    #[test]
    fn the_machine_is_told_with_its_alarms() {
        let text = at(120);
        assert!(
            text.starts_with(
                "Load    2.50 1.00 0.50  2 cores  214 processes, 1 running  up 1 d 2 h\n"
            ),
            "{text}"
        );
        assert!(text.contains("46.0 %  user 30.0  system 10.0"), "{text}");
        assert!(text.contains("2.00G of 8.00G  available 6.00G"), "{text}");
        assert!(text.contains("swap 750M of 1.00G !!"), "{text}");
        assert!(text.contains("Disks   /boot 91 % !! of 100G  / 45 % of 100G"), "{text}");
        assert!(text.contains("Network eth0 12.0K/s in 3.00K/s out\n"), "{text}");
    }

    #[test]
    fn a_worker_is_told_with_its_request_and_its_line() {
        let text = at(140);
        let lines: Vec<&str> = text.lines().collect();
        let place = lines.iter().position(|line| line.starts_with("Drom server 4711")).expect("it");
        assert!(lines[place].contains("generation 2  up 3 min 5 s  2 workers (1 perl, 1 idle)"));
        assert!(lines[place].ends_with("240 answers, 6.80M  1 CGI"), "{text}");
        assert!(lines[place + 2].contains("4713   2 perl"), "the busy one first: {text}");
        assert!(lines[place + 3].starts_with("  └─ 3.2 s  GET /registry/hold.pl?token=MASKED"));
        let below = lines[place + 3].to_owned() + lines[place + 4];
        assert!(below.contains("from 192.0.2.7:40112"), "{text}");
        assert!(below.contains("at /srv/site/perl/hold.pl:7 wait"), "{text}");
        assert!(lines.iter().any(|line| line.contains("4712   2 idle")), "{text}");
    }

    #[test]
    fn a_server_that_cannot_be_read_is_told_with_the_reason() {
        let error = Some("the scoreboard of process 7 cannot be read: be its user".to_owned());
        let server = Server { pid: 7, error, ..Server::default() };
        let items = servers(&[server], 40);
        let lines: Vec<String> = items[1].lines.iter().map(Line::text).collect();
        assert_eq!(lines[0], "Drom server 7");
        assert_eq!(lines[1], "  the scoreboard of process 7 cannot be");
        assert_eq!(lines[2], "  read: be its user");
    }

    #[test]
    fn no_line_is_wider_than_the_window() {
        for width in [1, 20, 40, 80, 132, 200] {
            let text = at(width);
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width), "{width}: {text}");
        }
    }

    #[test]
    fn narrow_windows_keep_what_counts() {
        let text = at(40);
        let head = text.lines().find(|line| line.contains("COMMAND")).expect("a head");
        assert_eq!(
            head.split_whitespace().collect::<Vec<_>>(),
            ["PID", "CPU%", "RSS", "PSS", "USS", "COMMAND"]
        );
        let choice = Choice { sort: Sort::Threads, ..Choice::default() };
        assert!(whole(&snapshot(), &choice, 20, 40).contains(" THR "));
    }

    #[test]
    fn what_is_not_shown_is_counted() {
        let text = whole(&snapshot(), &Choice::default(), 1, 80);
        assert!(text.ends_with("and 1 more: --rows 2 shows them\n"), "{text}");
        let none = Snapshot { processes: Vec::new(), ..snapshot() };
        assert!(whole(&none, &Choice::default(), 1, 80).ends_with("no process matches\n"));
    }

    #[test]
    fn the_end_of_a_long_path_stays() {
        assert_eq!(short("/a/very/long/path/hold.pl", 12), "…ath/hold.pl");
        assert_eq!(short("/a.pl", 4), "/a.pl");
    }
}
