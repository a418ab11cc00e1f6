//! A small SVG writer. Plots are drawn on a canvas of 1000 x `height` units that stretches with the
//! page while strokes and dots keep their size; words are HTML beside it, so they stay readable at
//! any width.

use std::fmt::Write;

use crate::format::is_command;

/// A canvas that is being drawn on.
#[derive(Clone, Debug)]
pub struct Svg {
    body: String,
    height: f64,
}

pub const WIDTH: f64 = 1_000.0;

impl Svg {
    #[must_use]
    pub fn new(height: f64) -> Self {
        Self { body: String::new(), height }
    }

    /// `share`s of width and height, 0 to 1, from the top left.
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let (x1, y1, x2, y2) = (self.x(from.0), self.y(from.1), self.x(to.0), self.y(to.1));
        self.put(&format!("<path class=\"{class}\" d=\"M{x1} {y1}L{x2} {y2}\"/>"));
    }

    /// A dot of constant size: a stroke of no length with round ends.
    pub fn dot(&mut self, class: &str, at: (f64, f64)) {
        let (x, y) = (self.x(at.0), self.y(at.1));
        self.put(&format!("<path class=\"dot {class}\" d=\"M{x} {y}h.01\"/>"));
    }

    pub fn rect(
        &mut self,
        class: &str,
        (left, right): (f64, f64),
        (top, bottom): (f64, f64),
        title: &str,
    ) {
        let (x, y) = (self.x(left), self.y(top));
        let (w, h) = (self.x(right - left), self.y(bottom - top));
        let title = if title.is_empty() {
            String::new()
        } else {
            format!("<title>{}</title>", escape(title))
        };
        self.put(&format!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{w}\" \
                height=\"{h}\">{title}</rect>"
        ));
    }

    pub fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        let mut path = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{command}{} {}", self.x(*x), self.y(*y));
        }
        self.put(&format!("<path class=\"{class}\" d=\"{path}\"/>"));
    }

    #[must_use]
    pub fn finish(self, label: &str) -> String {
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {}\" preserveAspectRatio=\"none\" role=\"img\" \
                aria-label=\"{}\">{}</svg>",
            self.height,
            escape(label),
            self.body
        )
    }

    fn put(&mut self, element: &str) {
        self.body += element;
    }

    fn x(&self, share: f64) -> String {
        short(share * WIDTH)
    }

    fn y(&self, share: f64) -> String {
        short(share * self.height)
    }
}

/// At most two decimals: the same input, the same bytes, and half the size.
#[must_use]
pub fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            // A page may be shown on a terminal, too.
            c if is_command(c) && c != '\n' => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// A logarithmic axis with ticks at round values.
#[derive(Clone, Debug)]
pub struct LogAxis {
    low: f64,
    high: f64,
}

impl LogAxis {
    /// Holds all `values` with some air; `None` when there is nothing above zero.
    #[must_use]
    pub fn around(values: impl Iterator<Item = f64>, least_span: f64) -> Option<Self> {
        let values: Vec<f64> = values.filter(|v| v.is_finite() && *v > 0.0).map(f64::ln).collect();
        let low = values.iter().copied().reduce(f64::min)?;
        let high = values.iter().copied().reduce(f64::max)?;
        let span = (high - low).max(least_span.ln());
        let (middle, half) = (0.5 * (low + high), 0.55 * span);
        Some(Self { low: middle - half, high: middle + half })
    }

    #[must_use]
    pub fn share(&self, value: f64) -> f64 {
        ((value.max(1e-300).ln() - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// Round values inside, with their share: the finest set of steps that gives at most `most`.
    #[must_use]
    pub fn ticks(&self, most: usize) -> Vec<(f64, f64)> {
        let (low, high) = (self.low.exp(), self.high.exp());
        let inside = |values: Vec<f64>| -> Vec<f64> {
            values.into_iter().filter(|v| (low..=high).contains(v)).collect()
        };
        let steps: [&[f64]; 3] = [&[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
        let decades = || (-9..=12).map(|exponent| 10_f64.powi(exponent));
        let mut found = linear_ticks(low, high, most);
        if high / low > 8.0 {
            let sets = steps.iter().map(|set| {
                inside(decades().flat_map(|d| set.iter().map(move |s| d * s)).collect())
            });
            found = sets.into_iter().find(|values| values.len() <= most).unwrap_or_default();
        }
        found.into_iter().map(|value| (value, self.share(value))).collect()
    }
}

/// Round values between, about `most`.
pub fn linear_ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    let raw = (high - low) / most as f64;
    let decade = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|s| s * decade).into_iter().find(|s| *s >= raw);
    let step = step.unwrap_or(raw);
    let first = (low / step).ceil() as i64;
    (first..first + 50).map(|n| n as f64 * step).take_while(|v| *v <= high).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_is_text() {
        assert_eq!(escape("a<b>&\"\u{1b}[31m\u{202e}"), r"a&lt;b&gt;&amp;&quot;\u{1b}[31m\u{202e}");
    }

    #[test]
    fn ticks_are_round_and_few() {
        let wide = LogAxis::around([0.01, 1.0].into_iter(), 1.1).expect("values");
        let ticks: Vec<f64> = wide.ticks(8).into_iter().map(|(value, _)| value).collect();
        assert!(ticks.len() >= 2 && ticks.len() <= 8, "{ticks:?}");
        let narrow = LogAxis::around([0.97, 1.04].into_iter(), 1.1).expect("values");
        assert!(narrow.ticks(6).len() >= 3);
        assert!(LogAxis::around(std::iter::empty(), 1.1).is_none());
    }

    #[test]
    fn text_cannot_break_out() {
        assert_eq!(escape("<a b=\"c\">&"), "&lt;a b=&quot;c&quot;&gt;&amp;");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            (short(1.0), short(0.126), short(10.50)),
            ("1".into(), "0.13".into(), "10.5".into())
        );
    }
}
