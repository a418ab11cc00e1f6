//! How memory went over time: of all that was watched together, and of each process. Keeps few
//! hundred points however long that is.

use std::collections::BTreeMap;

use drom_observe::Footprint;

use super::{look::Look, watch::Seen};

/// Above it every other point is dropped, and only every other look makes one.
const POINTS_MAX: usize = 512;
/// Below it there is no slope.
const POINTS_MIN: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    Rss,
    Pss,
    Uss,
    Swap,
}

impl Figure {
    pub const ALL: [Self; 4] = [Self::Rss, Self::Pss, Self::Uss, Self::Swap];

    pub fn name(self) -> &'static str {
        match self {
            Self::Rss => "rss",
            Self::Pss => "pss",
            Self::Uss => "uss",
            Self::Swap => "swap",
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Growth {
    pub whole: Course,
    pub by_process: BTreeMap<i32, (String, Course)>,
    last: Option<Look>,
    most: Option<Look>,
}

/// One process's way, or that of all together.
#[derive(Clone, Debug)]
pub struct Course {
    pub looks: usize,
    pub points: Vec<Point>,
    pub first: Point,
    pub last: Point,
    /// Of each figure for itself.
    pub max: [u64; 4],
    stride: usize,
}

/// Seconds since the first look, and bytes in the order of [`Figure::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    pub at_s: f64,
    pub bytes: [u64; 4],
}

impl Growth {
    pub fn take(&mut self, seen: Seen) {
        let Seen { at_s, look } = seen;
        let sum = look.sum();
        self.whole.take(Point::new(at_s, &sum));
        for member in &look.members {
            let known = self.by_process.entry(member.pid).or_default();
            known.0.clone_from(&member.command);
            known.1.take(Point::new(at_s, &member.footprint));
        }
        // Those that came and went tell nothing of growth; there may be any number of them.
        self.by_process.retain(|_, (_, course)| {
            course.looks >= POINTS_MIN || (course.last.at_s - at_s).abs() < f64::EPSILON
        });
        let pss = |look: &Look| look.sum().pages.pss_bytes;
        if self.most.as_ref().is_none_or(|most| pss(most) <= sum.pages.pss_bytes) {
            self.most = Some(look.clone());
        }
        self.last = Some(look);
    }

    pub fn last(&self) -> Option<&Look> {
        self.last.as_ref()
    }

    /// The look with the largest PSS.
    pub fn most(&self) -> Option<&Look> {
        self.most.as_ref()
    }
}

impl Default for Course {
    fn default() -> Self {
        let [first, last] = [Point::default(); 2];
        Self { looks: 0, points: Vec::new(), first, last, max: [0; 4], stride: 1 }
    }
}

impl Course {
    fn take(&mut self, point: Point) {
        if self.looks == 0 {
            self.first = point;
        }
        self.last = point;
        let higher = self.max.iter_mut().zip(point.bytes);
        higher.for_each(|(max, bytes)| *max = bytes.max(*max));
        if self.looks.is_multiple_of(self.stride) {
            self.points.push(point);
        }
        self.looks += 1;
        if self.points.len() == POINTS_MAX {
            let mut at = 0;
            self.points.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.stride *= 2;
        }
    }

    /// Bytes a second: the middle one of the slopes between any two points, which one jump does not
    /// move. `None` of too few.
    pub fn slope(&self, figure: Figure) -> Option<f64> {
        if self.points.len() < POINTS_MIN {
            return None;
        }
        let at = figure as usize;
        let values: Vec<f64> = self.points.iter().map(|point| point.bytes[at] as f64).collect();
        let passed_s = self.points[values.len() - 1].at_s - self.points[0].at_s;
        let step_s = passed_s / (values.len() - 1) as f64;
        // Without any spread there is no trend.
        let slope = drom_stats::trend(&values).map_or(0.0, |trend| trend.slope);
        (step_s > 0.0).then(|| slope / step_s)
    }

    pub fn passed_s(&self) -> f64 {
        self.last.at_s - self.first.at_s
    }
}

impl Point {
    fn new(at_s: f64, footprint: &Footprint) -> Self {
        let pages = footprint.pages;
        let bytes = [pages.rss_bytes, pages.pss_bytes, pages.uss_bytes(), pages.swap_bytes];
        Self { at_s, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(looks: usize, bytes: impl Fn(usize) -> u64) -> Course {
        let mut course = Course::default();
        for at in 0..looks {
            course.take(Point { at_s: 0.5 * at as f64, bytes: [bytes(at), 7, 0, 0] });
        }
        course
    }

    #[test]
    fn steady_growth_has_its_slope_and_a_jump_has_none() {
        let steady = course(100, |at| 1_000 * at as u64);
        assert_eq!(steady.slope(Figure::Rss), Some(2_000.0));
        assert_eq!(steady.slope(Figure::Pss), Some(0.0));
        let jump = course(100, |at| if at < 20 { 5 } else { 9_000 });
        assert_eq!(jump.slope(Figure::Rss), Some(0.0));
        assert_eq!((jump.first.bytes[0], jump.last.bytes[0], jump.max[0]), (5, 9_000, 9_000));
        assert_eq!(course(5, |at| at as u64).slope(Figure::Rss), None);
    }

    #[test]
    fn a_long_watch_keeps_few_points_and_its_extremes() {
        let long = course(100_000, |at| if at == 77_777 { 1 << 40 } else { 100 * at as u64 });
        assert!(long.points.len() < POINTS_MAX && long.points.len() >= POINTS_MAX / 4);
        assert_eq!((long.max[0], long.last.bytes[0], long.looks), (1 << 40, 9_999_900, 100_000));
        let slope = long.slope(Figure::Rss).expect("points");
        assert!((slope - 200.0).abs() < 1e-6, "{slope}");
        assert!((long.passed_s() - 49_999.5).abs() < 1e-6);
    }
}
