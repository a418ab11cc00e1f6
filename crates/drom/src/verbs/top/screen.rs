//! Draws the view: a bar above, the machine, servers and processes or a page, keys below. Where
//! everything stands is decided here; what it says, in `text.rs` and `page.rs`.

use ratatui::{
    Frame,
    layout::Rect,
    style::{Color, Modifier, Style},
    text::{Line as Drawn, Span},
    widgets::{Clear, Paragraph},
};

use super::{
    keys::{App, Mode},
    lines::{Item, Line, Tone, in_ascii},
    model::Snapshot,
    page::{self, Page},
    text,
};

/// How the terminal is spoken to.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    pub has_colours: bool,
    pub has_utf8: bool,
}

/// What is drawn.
pub struct Sight<'a> {
    pub app: &'a App,
    pub snapshot: &'a Snapshot,
    /// Its process may have ended.
    pub page: Option<&'a Page>,
    /// For the bar: the time, and how often it is looked.
    pub when: String,
    pub manner: Manner,
}

/// What keys need to know of what was drawn.
#[derive(Clone, Debug, Default)]
pub struct Drawing {
    /// Everything that can be chosen, from above.
    pub listed: Vec<i32>,
    /// Of the list.
    pub height: usize,
    /// Processes of the table that were seen: from, and how many.
    pub rows: (usize, usize),
}

const HELP: [(&str, &str); 12] = [
    ("up, down", "choose a worker or a process (also j, k, PgUp, PgDn, Home, End)"),
    ("Enter", "its page: Perl stack, memory, libraries, files, limits"),
    ("Esc", "back; then what was chosen, then the filter goes"),
    ("s", "sort by the next column: CPU%, RSS, PSS, USS, GROWTH, ..."),
    ("/", "filter by a regular expression: command, name, user, number"),
    ("t", "the tree: children below their parents"),
    ("Tab", "processes alone, without Drom's servers above them"),
    ("q", "end"),
    ("", ""),
    ("RSS", "pages in memory, counted in full by every process that shares them"),
    ("PSS", "the same, shared pages divided by those who share them"),
    ("USS", "pages that nobody shares: what would come back; GROWTH is of it"),
];

pub fn draw(frame: &mut Frame, sight: &Sight) -> Drawing {
    let area = frame.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let row = |y: usize, rows: usize| {
        let y = y.min(height);
        Rect::new(0, y as u16, area.width, rows.min(height - y) as u16)
    };
    frame.render_widget(bar(sight, width), row(0, 1));
    frame.render_widget(keys(sight, width), row(height.saturating_sub(1), 1));
    let machine = text::machine_in(sight.snapshot, width, (height / 3).max(1));
    let inner = height.saturating_sub(2);
    match (&sight.app.mode, sight.page) {
        (Mode::Page { pid }, page) => {
            let lines = page.map_or_else(
                || vec![Line::of(format!("Process {pid} has ended: Esc goes back"), Tone::Warning)],
                |page| page::lines(page, width),
            );
            let offset = sight.app.page_offset.min(lines.len().saturating_sub(inner));
            put(frame, sight, row(1, inner), &lines[offset..]);
            Drawing { height: inner, ..Drawing::default() }
        }
        (Mode::Help, _) => {
            let area = row(1, inner);
            frame.render_widget(Clear, area);
            put(frame, sight, area, &help(width));
            Drawing { height: inner, ..Drawing::default() }
        }
        _ => {
            put(frame, sight, row(1, machine.len()), &machine);
            list(frame, sight, row(1 + machine.len(), inner.saturating_sub(machine.len())))
        }
    }
}

fn help(width: usize) -> Vec<Line> {
    const INDENT: usize = 12;
    let of = |(key, words): &(&str, &str)| {
        let room = width.saturating_sub(INDENT);
        let words = drom_report::broken(words, room, room);
        let keys = [*key].into_iter().chain(std::iter::repeat(""));
        let line = |(key, words): (&str, String)| {
            let line = Line::of(format!("  {key:<10}"), Tone::Strong);
            line.with(words, Tone::Plain).cut(width)
        };
        keys.zip(words).map(line).collect::<Vec<_>>()
    };
    let head = [Line::new(), Line::of("Keys and columns", Tone::Head), Line::new()];
    head.into_iter().chain(HELP.iter().flat_map(of)).collect()
}

// ---- the list -----------------------------------------------------------------------------

fn list(frame: &mut Frame, sight: &Sight, area: Rect) -> Drawing {
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let processes = sight.app.choice.of(sight.snapshot.processes.clone());
    let servers = &sight.snapshot.servers[..];
    let servers = if sight.app.hides_servers { &[] } else { servers };
    let mut items = text::servers(servers, width);
    items.push(Item::line(Line::new()));
    let before = items.len();
    items.extend(text::processes(&processes, sight.app.choice.sort, width));
    if processes.is_empty() {
        items.push(Item::line(Line::of("no process matches", Tone::Dim)));
    }
    let listed: Vec<i32> = items.iter().filter_map(|item| item.pid).collect();
    let chosen = sight.app.chosen_of(&listed);
    let at = items.iter().position(|item| item.pid.is_some() && item.pid == chosen);
    let rows = rows(&items);
    let from = first_row(&items, &rows, at, height);
    let mut lines: Vec<(Line, bool)> = rows[from..]
        .iter()
        .take(height)
        .map(|(item, line)| (items[*item].lines[*line].clone(), Some(*item) == at))
        .collect();
    if let Some(head) = head_above(&items, &rows, from)
        && let Some(first) = lines.first_mut()
    {
        *first = (head.clone(), false);
    }
    let drawn: Vec<Drawn> = lines
        .iter()
        .map(|(line, is_chosen)| drawn(line, *is_chosen, width, sight.manner))
        .collect();
    frame.render_widget(Paragraph::new(drawn), area);
    let seen = rows.get(from).map_or(0, |(item, _)| item.saturating_sub(before + 1));
    Drawing { listed, height, rows: (seen, height) }
}

/// Item and line of every row.
fn rows(items: &[Item]) -> Vec<(usize, usize)> {
    let of = |(at, item): (usize, &Item)| (0..item.lines.len()).map(move |line| (at, line));
    items.iter().enumerate().flat_map(of).collect()
}

/// So that the chosen item is seen, with what stands above it where there is room.
fn first_row(items: &[Item], rows: &[(usize, usize)], at: Option<usize>, height: usize) -> usize {
    let Some(at) = at else { return 0 };
    let first = rows.iter().position(|(item, _)| *item == at).unwrap_or(0);
    let after = first + items[at].lines.len();
    // A row of others below it, that one sees that there are some.
    let wanted = (after + 1).min(rows.len()).saturating_sub(height);
    wanted.min(first.saturating_sub(1))
}

/// The head of the table that begins above the window and goes on in it.
fn head_above<'a>(items: &'a [Item], rows: &[(usize, usize)], from: usize) -> Option<&'a Line> {
    let (item, _) = rows.get(from).filter(|_| from > 0)?;
    let above = items[..=*item].iter().rev().find(|item| item.is_head || item.pid.is_none())?;
    above.lines.first().filter(|_| above.is_head)
}

// ---- lines --------------------------------------------------------------------------------

fn put(frame: &mut Frame, sight: &Sight, area: Rect, lines: &[Line]) {
    let width = usize::from(area.width);
    let lines = lines.iter().take(usize::from(area.height));
    let drawn: Vec<Drawn> = lines.map(|line| drawn(line, false, width, sight.manner)).collect();
    frame.render_widget(Paragraph::new(drawn), area);
}

fn drawn(line: &Line, is_chosen: bool, width: usize, manner: Manner) -> Drawn<'static> {
    let mut spans: Vec<Span> =
        line.0.iter().map(|(text, tone)| span(text, *tone, is_chosen, manner)).collect();
    if is_chosen {
        let rest = " ".repeat(width.saturating_sub(line.width()));
        spans.push(span(&rest, Tone::Plain, true, manner));
    }
    Drawn::from(spans)
}

fn span(text: &str, tone: Tone, is_chosen: bool, manner: Manner) -> Span<'static> {
    let text = if manner.has_utf8 { text.to_owned() } else { in_ascii(text) };
    if is_chosen {
        return Span::styled(text, Style::new().add_modifier(Modifier::REVERSED));
    }
    Span::styled(text, style(tone, manner))
}

fn style(tone: Tone, manner: Manner) -> Style {
    let colour = |colour: Color, style: Style| match manner.has_colours {
        true => style.fg(colour),
        false => style,
    };
    let bold = Style::new().add_modifier(Modifier::BOLD);
    match tone {
        Tone::Plain => Style::new(),
        Tone::Dim => Style::new().add_modifier(Modifier::DIM),
        Tone::Strong => bold,
        Tone::Head => colour(Color::Cyan, bold),
        Tone::Good => colour(Color::Green, Style::new()),
        Tone::Warning => colour(Color::Yellow, bold),
        Tone::Alarm => colour(Color::Red, bold),
    }
}

fn bar(sight: &Sight, width: usize) -> Paragraph<'static> {
    let choice = &sight.app.choice;
    let mut right = format!("by {}", choice.sort.title());
    if choice.is_tree {
        right += ", tree";
    }
    if let Some(filter) = &choice.filter {
        right += &format!(", /{}/", drom_report::format::plain(filter.as_str()));
    }
    let left = format!(" drom top  {}", sight.when);
    let room = width.saturating_sub(left.chars().count() + 2);
    let right: String = right.chars().take(room).collect();
    let gap = width.saturating_sub(left.chars().count() + right.chars().count() + 1);
    let line = Line::of(format!("{left}{}{right} ", " ".repeat(gap)), Tone::Strong).cut(width);
    Paragraph::new(drawn(&line, true, width, sight.manner))
}

/// The most needed ones first: a narrow window cuts the others.
fn keys(sight: &Sight, width: usize) -> Paragraph<'static> {
    let line = match &sight.app.mode {
        Mode::Filter { text, error } => {
            let line = Line::of(" filter: /", Tone::Head).with(text.clone(), Tone::Strong);
            let line = line.with("█", Tone::Plain);
            match error {
                Some(error) => line.with(format!("  {error}"), Tone::Alarm),
                None => line.with("  Enter keeps it, Esc drops it", Tone::Dim),
            }
        }
        Mode::Page { .. } => of_keys(&[("q", "quit"), ("Esc", "back"), ("arrows", "scroll")]),
        Mode::Help => of_keys(&[("q", "quit"), ("any other", "back")]),
        Mode::List => of_keys(&[
            ("q", "quit"),
            ("s", "sort"),
            ("/", "filter"),
            ("t", "tree"),
            ("Enter", "page"),
            ("h", "help"),
            ("Tab", "servers on/off"),
            ("arrows", "choose"),
        ]),
    };
    Paragraph::new(drawn(&line.cut(width), false, width, sight.manner))
}

fn of_keys(keys: &[(&str, &str)]) -> Line {
    keys.iter().fold(Line::new(), |line, (key, words)| {
        line.with(format!(" {key}"), Tone::Head).with(format!(" {words} "), Tone::Plain)
    })
}

#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend, buffer::Buffer};

    use super::{
        super::{
            page::tests::page,
            text::tests::{process, snapshot},
        },
        *,
    };

    const MANNER: Manner = Manner { has_colours: true, has_utf8: true };

    fn buffer(app: &App, snapshot: &Snapshot, size: (u16, u16)) -> (Buffer, Drawing) {
        let page = page();
        let sight =
            Sight { app, snapshot, page: Some(&page), when: "12:00:00".to_owned(), manner: MANNER };
        let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).expect("a terminal");
        let mut drawing = Drawing::default();
        terminal.draw(|frame| drawing = draw(frame, &sight)).expect("drawn");
        (terminal.backend().buffer().clone(), drawing)
    }

    fn text(buffer: &Buffer) -> Vec<String> {
        let width = usize::from(buffer.area.width);
        let rows = buffer.content.chunks(width);
        rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>()).collect()
    }

    fn seen(app: &App, size: (u16, u16)) -> Vec<String> {
        text(&buffer(app, &snapshot(), size).0)
    }

    #[test]
    fn an_ordinary_window_has_machine_server_and_processes() {
        let rows = seen(&App::default(), (80, 24));
        assert!(
            rows[0].starts_with(" drom top  12:00:00") && rows[0].trim_end().ends_with("by CPU%")
        );
        let has = |words: &str| rows.iter().any(|row| row.contains(words));
        let words =
            ["Load    2.50", "Memory  █████", "/boot 91 % !!", "Drom server 4711", "hold.pl:7"];
        words.iter().for_each(|words| assert!(has(words), "{words}: {rows:#?}"));
        assert!(
            has("GET /registry/hold.pl?token=MASKED HTTP/1.1") && has("perl a.pl"),
            "{rows:#?}"
        );
        assert!(rows[23].starts_with(" q quit  s sort  / filter  t tree  Enter page  h help "));
    }

    #[test]
    fn a_small_window_keeps_a_line_of_each() {
        let rows = seen(&App::default(), (40, 15));
        let has = |words: &str| rows.iter().any(|row| row.contains(words));
        assert!(has("Load ") && has("CPU ") && has("Memory ") && has("Disks   /boot"), "{rows:#?}");
        assert!(has("Drom server 4711") && rows[14].starts_with(" q quit"), "{rows:#?}");
    }

    #[test]
    fn a_large_window_has_every_column() {
        let rows = seen(&App::default(), (200, 50));
        let head = rows.iter().find(|row| row.contains("COMMAND")).expect("a head");
        for title in ["PID", "USER", "THR", "CPU%", "TIME", "RSS", "PSS", "USS", "GROWTH"] {
            assert!(head.contains(title), "{head}");
        }
        let head = rows.iter().find(|row| row.contains("ANSWERS")).expect("a head");
        assert!(["SLOT", "GEN", "CONN", "BYTES"].iter().all(|title| head.contains(title)));
    }

    #[test]
    fn the_chosen_one_is_seen_wherever_it_is_and_its_head_stays() {
        let processes = (1..=300).map(|pid| process(10_000 + pid, "sleep")).collect();
        let many = Snapshot { processes, ..snapshot() };
        for size in [(80, 24), (40, 15), (200, 50)] {
            let app = App { chosen: Some(10_250), ..App::default() };
            let (buffer, drawing) = buffer(&app, &many, size);
            let rows = text(&buffer);
            let at = rows.iter().position(|row| row.contains("10250")).expect("it is there");
            let cell = &buffer[(0, at as u16)];
            assert!(cell.modifier.contains(Modifier::REVERSED), "{rows:#?}");
            assert!(rows.iter().any(|row| row.contains("COMMAND")), "{rows:#?}");
            assert!(drawing.rows.0 > 200 && drawing.listed.len() == 303, "{drawing:?}");
        }
    }

    #[test]
    fn servers_make_room_for_processes() {
        let rows = seen(&App { hides_servers: true, ..App::default() }, (80, 24));
        let has = |words: &str| rows.iter().any(|row| row.contains(words));
        assert!(has("perl a.pl") && !has("Drom server"), "{rows:#?}");
    }

    #[test]
    fn pages_filters_and_help_take_their_place() {
        let in_mode = |mode| App { mode, ..App::default() };
        let rows = seen(&in_mode(Mode::Page { pid: 4712 }), (80, 24));
        assert!(rows[1].starts_with("Process 4712  perl hold.pl"), "{rows:#?}");
        let rows = seen(&in_mode(Mode::Help), (40, 15));
        assert!(rows.iter().any(|row| row.contains("Enter")), "{rows:#?}");
        let error = Some("unclosed group".to_owned());
        let rows = seen(&in_mode(Mode::Filter { text: "pe(".to_owned(), error }), (80, 24));
        assert!(rows[23].starts_with(" filter: /pe(█  unclosed group"), "{rows:#?}");
    }

    #[test]
    fn no_window_is_too_small() {
        for size in [(1, 1), (2, 3), (5, 2), (12, 6), (80, 1), (1, 40)] {
            for mode in [Mode::List, Mode::Help, Mode::Page { pid: 1 }] {
                seen(&App { mode, chosen: Some(4713), ..App::default() }, size);
            }
        }
    }

    #[test]
    fn without_colours_there_are_none() {
        let manner = Manner { has_colours: false, has_utf8: false };
        let tones = [Tone::Good, Tone::Warning, Tone::Alarm, Tone::Head];
        assert!(tones.iter().all(|tone| style(*tone, manner).fg.is_none()));
        assert_eq!(span("█…", Tone::Plain, false, manner).content, "#~");
    }
}
