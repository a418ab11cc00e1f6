//! When the master loads the configuration and the Perl code, and when it gives a load up.
//!
//! Pure: it is told what happened and what time it is, and says what is to be done. At most one
//! load runs; whoever asks while one runs gets a later one.

/// What the master should do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Wait,
    Begin,
    /// The load that runs has to end; the reason is for the operator.
    GiveUp(String),
}

pub struct Loading {
    /// When the load that runs began.
    began_ns: Option<u64>,
    /// Somebody asked, and no load has begun since.
    asked: bool,
    /// The template ended: a load is due that nobody asked for.
    lost: bool,
    retry_ns: u64,
    pause_ns: u64,
    /// When the last load came to its good end; 0: none did yet.
    ready_ns: u64,
    /// What a load that went well took last.
    usual_ns: u64,
}

const SECOND_NS: u64 = 1_000_000_000;
/// A load may take so long, and twice as long as the last one that went well.
const LIMIT_NS: u64 = 60 * SECOND_NS;
/// The same when another one waits for it.
const PATIENCE_NS: u64 = 5 * SECOND_NS;
const PAUSE_NS: u64 = SECOND_NS;
const PAUSE_MAX_NS: u64 = 60 * SECOND_NS;
/// A template that lived for so long does not end because of what it loaded.
const STEADY_NS: u64 = 10 * SECOND_NS;

impl Loading {
    /// The first load is asked for.
    pub fn new() -> Self {
        Self {
            began_ns: None,
            asked: true,
            lost: false,
            retry_ns: 0,
            pause_ns: PAUSE_NS,
            ready_ns: 0,
            usual_ns: 0,
        }
    }

    /// Nothing was ever loaded: there is no old code.
    pub fn is_first(&self) -> bool {
        self.ready_ns == 0
    }

    pub fn ask(&mut self) {
        self.asked = true;
    }

    /// The template of the code that serves ended.
    pub fn lose(&mut self, now_ns: u64) {
        self.lost = true;
        if now_ns > self.ready_ns + STEADY_NS {
            (self.retry_ns, self.pause_ns) = (now_ns, PAUSE_NS);
        } else {
            self.pause(now_ns);
        }
    }

    pub fn begin(&mut self, now_ns: u64) {
        self.began_ns = Some(now_ns);
        self.asked = false;
    }

    /// The load that runs went well.
    pub fn ready(&mut self, now_ns: u64) {
        self.usual_ns = now_ns - self.began_ns.take().unwrap_or(now_ns);
        self.ready_ns = now_ns.max(1);
        self.lost = false;
    }

    /// The load that runs did not. Says after how many seconds the next one comes, if one does
    /// without being asked for.
    pub fn fail(&mut self, now_ns: u64) -> Option<u64> {
        self.began_ns = None;
        self.lost.then(|| {
            self.pause(now_ns);
            (self.retry_ns - now_ns) / SECOND_NS
        })
    }

    pub fn step(&self, now_ns: u64) -> Step {
        let Some(began_ns) = self.began_ns else {
            let due = self.asked || self.lost && now_ns >= self.retry_ns;
            return if due { Step::Begin } else { Step::Wait };
        };
        let ran_ns = now_ns.saturating_sub(began_ns);
        let allowed = |limit_ns: u64| limit_ns.max(2 * self.usual_ns);
        if self.is_first() {
            return Step::Wait; // whoever started the server stops it
        }
        if ran_ns > allowed(LIMIT_NS) {
            let limit_s = allowed(LIMIT_NS) / SECOND_NS;
            return Step::GiveUp(format!("the Perl code did not load within {limit_s} s"));
        }
        if self.asked && ran_ns > allowed(PATIENCE_NS) {
            let ran_s = ran_ns / SECOND_NS;
            let text = format!("the Perl code was not loaded after {ran_s} s, when a later reload");
            return Step::GiveUp(format!("{text} was asked for"));
        }
        Step::Wait
    }

    fn pause(&mut self, now_ns: u64) {
        self.retry_ns = now_ns + self.pause_ns;
        self.pause_ns = (2 * self.pause_ns).min(PAUSE_MAX_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: u64 = 1000 * SECOND_NS;

    /// Its first load took one second and ended at `T`.
    fn loaded() -> Loading {
        let mut loading = Loading::new();
        loading.begin(T - SECOND_NS);
        loading.ready(T);
        loading
    }

    #[test]
    fn the_first_load_is_asked_for_and_never_given_up() {
        let mut loading = Loading::new();
        assert_eq!((loading.step(T), loading.is_first()), (Step::Begin, true));
        loading.begin(T);
        loading.ask();
        assert_eq!(loading.step(T + 3600 * SECOND_NS), Step::Wait);
        loading.ready(T + 3600 * SECOND_NS);
        assert!(!loading.is_first());
        assert_eq!(loading.step(T + 3600 * SECOND_NS), Step::Begin, "for who asked meanwhile");
    }

    #[test]
    fn those_who_ask_during_a_load_get_one_later() {
        let mut loading = loaded();
        loading.ask();
        loading.begin(T);
        loading.ask();
        loading.ask();
        assert_eq!(loading.step(T + SECOND_NS), Step::Wait);
        loading.ready(T + SECOND_NS);
        assert_eq!(loading.step(T + SECOND_NS), Step::Begin);
        loading.begin(T + SECOND_NS);
        assert_eq!(loading.fail(T + 2 * SECOND_NS), None);
        assert_eq!(loading.step(T + 2 * SECOND_NS), Step::Wait, "a failure is not tried again");
    }

    #[test]
    fn a_load_that_hangs_gives_way() {
        let mut loading = loaded();
        loading.begin(T);
        assert_eq!(loading.step(T + 60 * SECOND_NS), Step::Wait);
        assert!(
            matches!(loading.step(T + 61 * SECOND_NS), Step::GiveUp(why) if why.contains("60 s"))
        );
        loading.ask();
        assert_eq!(loading.step(T + 5 * SECOND_NS), Step::Wait);
        let Step::GiveUp(why) = loading.step(T + 6 * SECOND_NS) else { panic!("it waits") };
        assert!(why.contains("later reload"), "{why}");
    }

    #[test]
    fn what_takes_its_time_is_given_twice_that() {
        let mut loading = loaded();
        loading.begin(T);
        loading.ready(T + 50 * SECOND_NS);
        loading.begin(T + 100 * SECOND_NS);
        loading.ask();
        assert_eq!(loading.step(T + 200 * SECOND_NS), Step::Wait);
        assert!(matches!(loading.step(T + 201 * SECOND_NS), Step::GiveUp(_)));
    }

    #[test]
    fn a_lost_template_is_replaced_with_growing_pauses() {
        let mut loading = loaded();
        let mut now_ns = T + 11 * SECOND_NS;
        loading.lose(now_ns);
        assert_eq!(loading.step(now_ns), Step::Begin);
        for pause_s in [1, 2, 4, 8, 16, 32, 60, 60] {
            loading.begin(now_ns);
            assert_eq!(loading.fail(now_ns), Some(pause_s));
            assert_eq!(loading.step(now_ns + pause_s * SECOND_NS - 1), Step::Wait);
            now_ns += pause_s * SECOND_NS;
            assert_eq!(loading.step(now_ns), Step::Begin);
        }
        loading.begin(now_ns);
        loading.ask();
        loading.fail(now_ns);
        assert_eq!(loading.step(now_ns), Step::Begin, "who asks does not wait for the pause");
        loading.begin(now_ns);
        loading.ready(now_ns);
        assert_eq!(loading.step(now_ns + 100 * SECOND_NS), Step::Wait);
    }

    #[test]
    fn code_whose_template_ends_at_once_is_not_loaded_all_the_time() {
        let mut loading = loaded();
        loading.lose(T + SECOND_NS);
        assert_eq!(loading.step(T + SECOND_NS), Step::Wait);
        assert_eq!(loading.step(T + 2 * SECOND_NS), Step::Begin);
        loading.begin(T + 2 * SECOND_NS);
        loading.ready(T + 2 * SECOND_NS);
        loading.lose(T + 2 * SECOND_NS);
        assert_eq!(loading.step(T + 3 * SECOND_NS), Step::Wait, "the pause has grown");
        assert_eq!(loading.step(T + 4 * SECOND_NS), Step::Begin);
    }
}
