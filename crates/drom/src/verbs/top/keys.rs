//! What keys do in the view: which processes are listed, which one is chosen, what is on the
//! screen. A state machine without a terminal.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use regex::Regex;

use super::choose::Choice;

/// The state of the view.
#[derive(Clone, Debug, Default)]
pub struct App {
    pub choice: Choice,
    pub mode: Mode,
    /// Once somebody has chosen it, a process stays chosen wherever it goes.
    pub chosen: Option<i32>,
    /// Servers make room for processes.
    pub hides_servers: bool,
    /// Lines of the page that are above the window.
    pub page_offset: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    List,
    /// A filter is being written.
    Filter {
        text: String,
        error: Option<String>,
    },
    Page {
        pid: i32,
    },
    Help,
}

/// What the view has to do besides drawing itself anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Draw,
    /// The page needs to be read.
    Open,
    Quit,
}

impl App {
    pub fn new(choice: Choice, pid: Option<i32>) -> Self {
        let mode = pid.map_or(Mode::List, |pid| Mode::Page { pid });
        Self { choice, mode, ..Self::default() }
    }

    /// `listed` are the processes as they stand below each other, `height` is the window's.
    pub fn press(&mut self, key: KeyEvent, listed: &[i32], height: usize) -> Action {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Action::Quit } else { Action::Draw };
        }
        match std::mem::take(&mut self.mode) {
            Mode::List => self.in_list(key.code, listed, height),
            Mode::Filter { text, .. } => self.in_filter(key.code, text),
            Mode::Page { pid } => self.in_page(key.code, pid, height),
            Mode::Help => match key.code {
                KeyCode::Char('q') => Action::Quit,
                _ => Action::Draw,
            },
        }
    }

    fn in_list(&mut self, key: KeyCode, listed: &[i32], height: usize) -> Action {
        match key {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char('s') => self.choice.sort = self.choice.sort.next(),
            KeyCode::Char('t') => self.choice.is_tree = !self.choice.is_tree,
            KeyCode::Tab => (self.hides_servers, self.chosen) = (!self.hides_servers, None),
            KeyCode::Char('h' | '?') | KeyCode::F(1) => self.mode = Mode::Help,
            KeyCode::Char('/') => {
                let text = self.choice.filter.as_ref().map_or("", Regex::as_str).to_owned();
                self.mode = Mode::Filter { text, error: None };
            }
            // First the choice goes, then the filter.
            KeyCode::Esc if self.chosen.take().is_none() => self.choice.filter = None,
            KeyCode::Enter => return self.open(listed),
            key => self.step(key, listed, height),
        }
        Action::Draw
    }

    fn open(&mut self, listed: &[i32]) -> Action {
        let Some(pid) = self.chosen_of(listed) else { return Action::Draw };
        (self.mode, self.page_offset) = (Mode::Page { pid }, 0);
        Action::Open
    }

    /// The first one while nobody has chosen another, or when that one has ended.
    pub fn chosen_of(&self, listed: &[i32]) -> Option<i32> {
        self.chosen.filter(|pid| listed.contains(pid)).or(listed.first().copied())
    }

    fn step(&mut self, key: KeyCode, listed: &[i32], height: usize) {
        let chosen = self.chosen_of(listed);
        let at = listed.iter().position(|pid| Some(*pid) == chosen).unwrap_or(0);
        let last = listed.len().saturating_sub(1);
        let page = height.saturating_sub(2).max(1);
        let to = match key {
            KeyCode::Down | KeyCode::Char('j') => (at + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
            KeyCode::PageDown | KeyCode::Char(' ') => (at + page).min(last),
            KeyCode::PageUp => at.saturating_sub(page),
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => return,
        };
        self.chosen = listed.get(to).copied();
    }

    /// The list follows every letter; what is no regular expression yet changes nothing.
    fn in_filter(&mut self, key: KeyCode, mut text: String) -> Action {
        match key {
            KeyCode::Enter => {}
            KeyCode::Esc => self.choice.filter = None,
            key => {
                match key {
                    KeyCode::Char(letter) => text.push(letter),
                    KeyCode::Backspace => drop(text.pop()),
                    _ => {}
                }
                let error = self.filter_by(&text);
                self.mode = Mode::Filter { text, error };
            }
        }
        Action::Draw
    }

    fn filter_by(&mut self, text: &str) -> Option<String> {
        if text.is_empty() {
            self.choice.filter = None;
            return None;
        }
        match super::filter(text) {
            Ok(filter) => self.choice.filter = Some(filter),
            Err(words) => return Some(words),
        }
        None
    }

    fn in_page(&mut self, key: KeyCode, pid: i32, height: usize) -> Action {
        let page = height.saturating_sub(2).max(1);
        let offset = self.page_offset;
        self.page_offset = match key {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Esc | KeyCode::Left | KeyCode::Backspace => {
                self.page_offset = 0;
                return Action::Draw;
            }
            KeyCode::Down | KeyCode::Char('j') => offset + 1,
            KeyCode::Up | KeyCode::Char('k') => offset.saturating_sub(1),
            KeyCode::PageDown | KeyCode::Char(' ') => offset + page,
            KeyCode::PageUp => offset.saturating_sub(page),
            KeyCode::Home => 0,
            KeyCode::End => usize::MAX / 2,
            _ => offset,
        };
        self.mode = Mode::Page { pid };
        Action::Draw
    }
}

#[cfg(test)]
mod tests {
    use super::{super::choose::Sort, *};

    const LISTED: [i32; 4] = [10, 20, 30, 40];

    fn press(app: &mut App, keys: &str) -> Action {
        let code = |key| match key {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            '\u{8}' => KeyCode::Backspace,
            'D' => KeyCode::Down,
            'U' => KeyCode::Up,
            'E' => KeyCode::End,
            letter => KeyCode::Char(letter),
        };
        let press = |app: &mut App, key| app.press(KeyEvent::from(code(key)), &LISTED, 10);
        keys.chars().map(|key| press(app, key)).last().expect("keys")
    }

    #[test]
    fn arrows_choose_and_enter_opens() {
        let mut app = App::default();
        assert_eq!(app.chosen_of(&LISTED), Some(10));
        press(&mut app, "DDU");
        assert_eq!((app.chosen, app.chosen_of(&[30, 20])), (Some(20), Some(20)));
        assert_eq!(app.chosen_of(&[30]), Some(30), "it has ended");
        assert_eq!(press(&mut app, "E\n"), Action::Open);
        assert_eq!(app.mode, Mode::Page { pid: 40 });
        press(&mut app, "DD");
        assert_eq!(app.page_offset, 2);
        press(&mut app, "\u{1b}");
        assert_eq!((&app.mode, app.chosen), (&Mode::List, Some(40)));
        assert_eq!(App::default().chosen_of(&[]), None);
    }

    #[test]
    fn a_filter_is_written_letter_by_letter() {
        let mut app = App::default();
        press(&mut app, "/pe(");
        assert!(matches!(&app.mode, Mode::Filter { error: Some(_), .. }), "{:?}", app.mode);
        assert_eq!(app.choice.filter.as_ref().map(Regex::as_str), Some("pe"));
        press(&mut app, "\u{8}q\n");
        assert_eq!(app.choice.filter.as_ref().map(Regex::as_str), Some("peq"));
        assert_eq!(app.mode, Mode::List);
        press(&mut app, "D\u{1b}");
        assert!(app.choice.filter.is_some() && app.chosen.is_none());
        press(&mut app, "\u{1b}");
        assert!(app.choice.filter.is_none());
        press(&mut app, "/x\u{8}");
        assert!(app.choice.filter.is_none());
    }

    #[test]
    fn letters_sort_show_the_tree_help_and_end() {
        let mut app = App::default();
        app.press(KeyEvent::from(KeyCode::Tab), &LISTED, 10);
        assert!(app.hides_servers);
        press(&mut app, "st");
        assert_eq!((app.choice.sort, app.choice.is_tree), (Sort::Rss, true));
        assert_eq!(press(&mut app, "h"), Action::Draw);
        assert_eq!(app.mode, Mode::Help);
        press(&mut app, "x");
        assert_eq!((&app.mode, press(&mut app.clone(), "q")), (&Mode::List, Action::Quit));
        let stop = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(App::new(Choice::default(), Some(7)).press(stop, &LISTED, 5), Action::Quit);
    }
}
