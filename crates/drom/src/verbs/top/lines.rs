//! Lines of text whose parts have a tone, and tables of them: what a terminal colours and a file
//! does not. Nothing here knows what is shown. Pure.

/// What a part of a line is to the reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Plain,
    /// Less than plain: words around figures.
    Dim,
    Strong,
    /// The head of a table.
    Head,
    Good,
    Warning,
    Alarm,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line(pub Vec<(String, Tone)>);

/// Something that is shown in one or more lines; one that can be chosen has a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    pub lines: Vec<Line>,
    pub pid: Option<i32>,
    /// The head of a table: it stays while its rows are seen.
    pub is_head: bool,
}

/// A column: its head, its place when there is no room for all (the largest goes first).
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub title: &'static str,
    pub rank: u8,
    pub is_text: bool,
    /// Takes what the others leave; the last column alone.
    pub is_open: bool,
}

/// Less than that is no column for text; of wide windows it has a third.
const OPEN_MIN: usize = 12;
const OPEN_MOST: usize = 40;

impl Line {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn of(text: impl Into<String>, tone: Tone) -> Self {
        Self(vec![(text.into(), tone)])
    }

    pub fn with(mut self, text: impl Into<String>, tone: Tone) -> Self {
        self.0.push((text.into(), tone));
        self
    }

    pub fn width(&self) -> usize {
        self.0.iter().map(|(text, _)| text.chars().count()).sum()
    }

    pub fn text(&self) -> String {
        self.0.iter().map(|(text, _)| text.as_str()).collect()
    }

    /// No wider than this; what was cut ends in a sign that says so.
    pub fn cut(mut self, width: usize) -> Self {
        if self.width() <= width {
            return self;
        }
        let mut room = width.saturating_sub(1);
        for (text, _) in &mut self.0 {
            let length = text.chars().count();
            if length > room {
                *text = text.chars().take(room).collect();
            }
            room -= length.min(room);
        }
        if let Some(at) = self.0.iter().rposition(|(text, _)| !text.is_empty()) {
            self.0.truncate(at + 1);
        }
        if width > 0 {
            let tone = self.0.last().map_or(Tone::Plain, |(_, tone)| *tone);
            self.0.push(("…".to_owned(), tone));
        }
        self
    }
}

impl Item {
    pub fn line(line: Line) -> Self {
        Self { lines: vec![line], ..Self::default() }
    }

    pub fn head(line: Line) -> Self {
        Self { is_head: true, ..Self::line(line) }
    }
}

/// Parts one after the other with two blanks between, in as many lines as they need.
pub fn wrapped(title: &str, indent: usize, parts: Vec<Line>, width: usize) -> Vec<Line> {
    let begin = || Line::of(" ".repeat(indent), Tone::Plain);
    let mut lines = vec![Line::of(format!("{title:<indent$}"), Tone::Head)];
    let mut is_new = true;
    for part in parts {
        let line = lines.last_mut().expect("there is one");
        if !is_new && line.width() + 2 + part.width() > width {
            lines.push(begin());
            is_new = true;
        }
        let line = lines.last_mut().expect("there is one");
        if !is_new {
            line.0.push(("  ".to_owned(), Tone::Plain));
        }
        line.0.extend(part.0);
        is_new = false;
    }
    lines.into_iter().map(|line| line.cut(width)).collect()
}

/// Rows under their heads, aligned. `marked` is the column that rows are sorted by.
pub fn table(
    columns: &[Column],
    marked: &str,
    rows: &[Vec<(String, Tone)>],
    width: usize,
) -> Vec<Line> {
    let widths: Vec<usize> = (0..columns.len())
        .map(|at| {
            let cells = rows.iter().map(|row| row[at].0.chars().count());
            cells.chain([columns[at].title.chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let kept = kept(columns, &widths, width);
    let line = |cells: &dyn Fn(usize) -> (String, Tone)| {
        let mut line = Line::new();
        for (number, at) in kept.iter().enumerate() {
            if number > 0 {
                line.0.push((" ".to_owned(), Tone::Plain));
            }
            let (text, tone) = cells(*at);
            line.0.push((padded(&text, &columns[*at], widths[*at]), tone));
        }
        line.cut(width)
    };
    let head = |at: usize| {
        let tone = if columns[at].title == marked { Tone::Strong } else { Tone::Head };
        (columns[at].title.to_owned(), tone)
    };
    let mut lines = vec![line(&head)];
    lines.extend(rows.iter().map(|row| line(&|at| row[at].clone())));
    lines
}

fn padded(text: &str, column: &Column, width: usize) -> String {
    match (column.is_open, column.is_text) {
        (true, _) => text.to_owned(),
        (false, true) => format!("{text:<width$}"),
        (false, false) => format!("{text:>width$}"),
    }
}

/// The columns that there is room for.
fn kept(columns: &[Column], widths: &[usize], width: usize) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..columns.len()).collect();
    let taken = |kept: &[usize]| {
        let open = (width / 3).clamp(OPEN_MIN, OPEN_MOST);
        let of = |at: &usize| if columns[*at].is_open { open } else { widths[*at] };
        kept.iter().map(of).sum::<usize>() + kept.len().saturating_sub(1)
    };
    while kept.len() > 1 && taken(&kept) > width {
        let last = kept.iter().enumerate().max_by_key(|(_, at)| columns[**at].rank);
        let Some((place, _)) = last.filter(|(_, at)| columns[**at].rank > 0) else { break };
        kept.remove(place);
    }
    kept
}

/// Signs of an old locale, one for one.
pub fn in_ascii(text: &str) -> String {
    let sign = |letter: char| match letter {
        '█' => '#',
        '░' | '·' => '.',
        '├' | '│' => '|',
        '└' => '`',
        '─' => '-',
        '…' => '~',
        '▼' => 'v',
        '▸' => '>',
        letter => letter,
    };
    text.chars().map(sign).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COLUMNS: [Column; 3] = [
        Column { title: "PID", rank: 0, is_text: false, is_open: false },
        Column { title: "USER", rank: 2, is_text: true, is_open: false },
        Column { title: "COMMAND", rank: 0, is_text: true, is_open: true },
    ];

    fn row(words: [&str; 3]) -> Vec<(String, Tone)> {
        words.iter().map(|word| ((*word).to_owned(), Tone::Plain)).collect()
    }

    #[test]
    fn columns_are_aligned_and_go_by_their_rank() {
        let rows = [row(["7", "root", "init"]), row(["4711", "me", "perl a.pl"])];
        let text = |width| {
            let lines = table(&COLUMNS, "PID", &rows, width);
            lines.iter().map(Line::text).collect::<Vec<_>>()
        };
        assert_eq!(text(80), [" PID USER COMMAND", "   7 root init", "4711 me   perl a.pl"]);
        assert_eq!(text(20)[2], "4711 perl a.pl");
        assert_eq!(text(8)[2], "4711 pe…");
    }

    #[test]
    fn parts_wrap_under_each_other() {
        let parts = || ["one 1", "two 2", "three 3"].map(|text| Line::of(text, Tone::Plain)).into();
        let text = |width| {
            let lines = wrapped("Net", 5, parts(), width);
            lines.iter().map(Line::text).collect::<Vec<_>>()
        };
        assert_eq!(text(40), ["Net  one 1  two 2  three 3"]);
        assert_eq!(text(18), ["Net  one 1  two 2", "     three 3"]);
    }

    #[test]
    fn old_terminals_have_signs_of_the_same_width() {
        assert_eq!(in_ascii("├─ └─ █░…"), "|- `- #.~");
    }

    proptest! {
        #[test]
        fn no_line_is_too_wide(
            words in proptest::collection::vec("\\PC{0,9}", 1..6),
            width in 0..40_usize,
        ) {
            let line = words.iter().fold(Line::new(), |line, word| line.with(word, Tone::Dim));
            let cut = line.clone().cut(width);
            prop_assert!(cut.width() <= width, "{:?}", cut);
            prop_assert!(line.width() > width || cut == line);
        }
    }
}
