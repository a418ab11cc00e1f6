//! The view on a terminal: takes it, refreshes what is seen, hands keys over, and gives it back
//! however it ends - by a key, a signal, or a panic.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant, UNIX_EPOCH},
};

use drom_observe::clock;
use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyEventKind},
};

use super::{
    Args, Failure,
    collect::{Collector, Wish},
    keys::{Action, App, Mode},
    model::Snapshot,
    page::Page,
    screen::{Drawing, Manner, Sight, draw},
};
use crate::{exit::Exit, say, verbs::load::watch_interrupts};

/// A signal is noticed so soon.
const LOOK: Duration = Duration::from_millis(100);
/// And so soon it ends the view, whatever that waits for.
const STUCK: Duration = Duration::from_secs(1);
/// A page that is opened has had no time to use CPUs in.
const SHORT: Duration = Duration::from_millis(200);

struct View<'a> {
    args: &'a Args,
    collector: Collector,
    app: App,
    snapshot: Snapshot,
    page: Option<Page>,
    drawing: Drawing,
    manner: Manner,
    due: Instant,
}

pub fn run(args: &Args) -> Result<Exit, Failure> {
    let stop = watch_interrupts();
    let collector = super::collector()?;
    clock::sleep(super::BETWEEN);
    let mut view = View::new(args, collector)?;
    let failed = |error: io::Error| Failure::new(format!("the terminal cannot be used: {error}"));
    // Gives the terminal back where something panics, too.
    let mut terminal = ratatui::try_init().map_err(failed)?;
    end_when_stuck(stop);
    let ended = view.live(&mut terminal, stop);
    // A terminal that was made larger meanwhile would show some of it again; one that is gone has
    // nothing to be given back.
    let _ = terminal.clear();
    let _ = ratatui::try_restore();
    ended.map(|()| Exit::Done).map_err(failed)
}

/// Half a key sequence would be waited for beyond every signal.
fn end_when_stuck(stop: &'static AtomicBool) {
    std::thread::spawn(move || {
        while !stop.load(Relaxed) {
            clock::sleep(LOOK);
        }
        clock::sleep(STUCK);
        let _ = ratatui::try_restore();
        std::process::exit(Exit::Done as i32);
    });
}

/// What there is to be read from the terminal.
#[derive(PartialEq, Eq)]
enum Input {
    None,
    Some,
    /// The terminal went away: reading would give nothing, at once and for ever.
    Gone,
}

fn input(within: Duration) -> Input {
    let mut wait = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
    let within_ms = within.as_millis().max(1).min(LOOK.as_millis()) as i32;
    // SAFETY: one record, which is ours to write.
    let ready = unsafe { libc::poll(&raw mut wait, 1, within_ms) };
    if ready <= 0 {
        return Input::None;
    }
    let mut bytes: libc::c_int = 0;
    // SAFETY: the number is ours to write.
    let asked = unsafe { libc::ioctl(libc::STDIN_FILENO, libc::FIONREAD, &raw mut bytes) };
    let is_there = wait.revents == libc::POLLIN && asked == 0 && bytes > 0;
    if is_there { Input::Some } else { Input::Gone }
}

impl<'a> View<'a> {
    fn new(args: &'a Args, collector: Collector) -> Result<Self, Failure> {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let mut view = Self {
            args,
            collector,
            app: App::new(args.choice(), args.pid),
            snapshot: Snapshot::default(),
            page: None,
            drawing: Drawing { rows: (0, super::ROWS), ..Drawing::default() },
            manner: Manner { has_colours: !refused, has_utf8: say::has_utf8() },
            due: clock::now(),
        };
        view.refresh();
        match args.pid {
            Some(pid) if view.page.is_none() => {
                Err(Failure::new(format!("there is no process {pid}")))
            }
            _ => Ok(view),
        }
    }

    fn live(&mut self, terminal: &mut DefaultTerminal, stop: &AtomicBool) -> io::Result<()> {
        while !stop.load(Relaxed) {
            self.draw(terminal)?;
            if self.wait(stop)? == Action::Quit {
                break;
            }
        }
        Ok(())
    }

    fn draw(&mut self, terminal: &mut DefaultTerminal) -> io::Result<()> {
        let sight = Sight {
            app: &self.app,
            snapshot: &self.snapshot,
            page: self.page.as_ref(),
            when: time_of_day(),
            manner: self.manner,
        };
        let mut drawing = Drawing::default();
        terminal.draw(|frame| drawing = draw(frame, &sight))?;
        self.drawing = drawing;
        Ok(())
    }

    /// Until there is something new to be seen.
    fn wait(&mut self, stop: &AtomicBool) -> io::Result<Action> {
        loop {
            let left = self.due.saturating_duration_since(clock::now());
            if left.is_zero() {
                self.refresh();
                return Ok(Action::Draw);
            }
            let input = input(left);
            if stop.load(Relaxed) || input == Input::Gone {
                return Ok(Action::Quit);
            }
            // Another size of the window is no input.
            if !event::poll(Duration::ZERO)? {
                continue;
            }
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    let drawing = &self.drawing;
                    let action = self.app.press(key, &drawing.listed, drawing.height);
                    if action == Action::Open {
                        self.open();
                    }
                    return Ok(action);
                }
                Event::Resize(..) => return Ok(Action::Draw),
                _ => {}
            }
        }
    }

    fn refresh(&mut self) {
        self.due = clock::now() + self.args.interval;
        if let Mode::Page { pid } = self.app.mode {
            self.page = self.collector.page(pid);
            return;
        }
        let (choice, rows) = (&self.app.choice, self.drawing.rows);
        self.snapshot = self.collector.take(Wish { choice, rows, is_single: false });
    }

    /// With the figures of CPUs that were seen in the list: there are no others yet.
    fn open(&mut self) {
        let Mode::Page { pid } = self.app.mode else { return };
        self.page = self.collector.page(pid);
        let listed = self.snapshot.processes.iter().find(|process| process.pid == pid);
        if let Some((page, listed)) = self.page.as_mut().zip(listed) {
            page.process.cpu_percent = listed.cpu_percent;
        }
        self.due = clock::now() + self.args.interval.max(SHORT);
    }
}

/// By the clock on the wall, and where that is not known, in UTC.
fn time_of_day() -> String {
    let now = clock::wall_at(clock::monotonic_ns()).duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |since| since.as_secs() as libc::time_t);
    // SAFETY: the record is plain data, for which all zeroes is a valid value.
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both are ours, one to read and one to write; no other thread changes the zone.
    unsafe { libc::localtime_r(&raw const now, &raw mut local) };
    format!("{:02}:{:02}:{:02}", local.tm_hour, local.tm_min, local.tm_sec)
}
