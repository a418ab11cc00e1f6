//! Tables for people: figures to the right, words last, no line wider than the window.

use drom_report::format::plain;

use crate::verbs::report::columns;

/// Fewer columns of the last cell tell too little.
const WORDS_MIN: usize = 10;
const GAP: usize = 2;

pub struct Table {
    /// The first row is the head; every row has as many cells.
    pub rows: Vec<Vec<String>>,
    /// Columns that are left out first where there is too little room, in this order.
    pub spare: &'static [usize],
    /// Of words that are cut the end is kept: names of files differ there.
    pub keeps_end: bool,
}

/// Columns of the window that is written to; `COLUMNS` where there is none.
pub fn width(is_aside: bool) -> Option<usize> {
    let descriptor = if is_aside { libc::STDERR_FILENO } else { libc::STDOUT_FILENO };
    let told = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns >= 40);
    columns(descriptor).or_else(told)
}

impl Table {
    pub fn render(&self, width: Option<usize>) -> String {
        let shown = self.shown(width);
        let widths: Vec<usize> = shown.iter().map(|at| self.width_of(*at)).collect();
        let figures = widths.len().saturating_sub(1);
        let taken: usize = widths.iter().take(figures).map(|width| width + GAP).sum();
        let room = width.map(|width| width.saturating_sub(taken).max(WORDS_MIN));
        let mut out = String::new();
        for row in &self.rows {
            let cells = shown.iter().zip(&widths).enumerate().map(|(place, (at, width))| {
                let cell = &row[*at];
                if place == figures { self.cut(cell, room) } else { right(cell, *width) }
            });
            out += cells.collect::<Vec<_>>().join("  ").trim_end();
            out.push('\n');
        }
        out
    }

    /// Places of the columns that there is room for.
    fn shown(&self, width: Option<usize>) -> Vec<usize> {
        let columns = self.rows.first().map_or(0, Vec::len);
        let mut shown: Vec<usize> = (0..columns).collect();
        let is_too_wide = |shown: &[usize]| {
            let figures = &shown[..shown.len().saturating_sub(1)];
            let taken: usize = figures.iter().map(|at| self.width_of(*at) + GAP).sum();
            let words = shown.last().map_or(0, |at| self.width_of(*at).min(WORDS_MIN));
            width.is_some_and(|width| taken + words > width)
        };
        for spare in self.spare {
            if !is_too_wide(&shown) {
                break;
            }
            shown.retain(|at| at != spare);
        }
        shown
    }

    fn width_of(&self, at: usize) -> usize {
        self.rows.iter().filter_map(|row| row.get(at)).map(|cell| letters(cell)).max().unwrap_or(0)
    }

    fn cut(&self, words: &str, room: Option<usize>) -> String {
        let words = plain(words);
        let over = letters(&words).saturating_sub(room.unwrap_or(usize::MAX));
        match over {
            0 => words,
            _ if self.keeps_end => {
                format!("\u{2026}{}", words.chars().skip(over + 1).collect::<String>())
            }
            _ => {
                let kept = letters(&words) - over - 1;
                format!("{}\u{2026}", words.chars().take(kept).collect::<String>())
            }
        }
    }
}

fn right(cell: &str, width: usize) -> String {
    format!("{}{cell}", " ".repeat(width.saturating_sub(letters(cell))))
}

fn letters(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(keeps_end: bool) -> Table {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        let rows = vec![
            row(["PID", "RSS", "SWAP", "FILE"]),
            row(["1", "12.3 MB", "0 B", "/usr/lib/x86_64/libperl.so"]),
        ];
        Table { rows, spare: &[2], keeps_end }
    }

    #[test]
    fn figures_stand_to_the_right_and_words_are_cut_in_a_narrow_window() {
        let wide = "PID      RSS  SWAP  FILE\n  1  12.3 MB   0 B  /usr/lib/x86_64/libperl.so\n";
        assert_eq!(table(true).render(None), wide);
        let narrow = table(true).render(Some(34));
        assert_eq!(narrow.lines().nth(1), Some("  1  12.3 MB   0 B  \u{2026}64/libperl.so"));
        let narrow = table(false).render(Some(34));
        assert_eq!(narrow.lines().nth(1), Some("  1  12.3 MB   0 B  /usr/lib/x86_\u{2026}"));
        let least = table(true).render(Some(26));
        assert_eq!(least, "PID      RSS  FILE\n  1  12.3 MB  \u{2026}/libperl.so\n");
    }

    #[test]
    fn no_name_commands_a_terminal() {
        let mut table = table(true);
        table.rows[1][3] = "a\u{1b}[2J".to_owned();
        assert!(!table.render(None).contains('\u{1b}'));
    }
}
