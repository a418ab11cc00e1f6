//! What a variant answers and how much of it is always the same: learned from some answers in the
//! preflight, looked at again at every start. Pure.

use drom_load::ExpectedBody;
use drom_store::Answer;

use crate::world::Reply;

/// What is known of a variant's answers.
#[derive(Clone, Debug)]
pub struct Known {
    first: Reply,
    constant: Constant,
}

/// What all answers so far have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Constant {
    Body,
    Length,
    Nothing,
}

impl Known {
    pub fn of(first: Reply) -> Self {
        Self { first, constant: Constant::Body }
    }

    /// Takes another answer into account; whether less is constant now.
    pub fn see(&mut self, reply: &Reply) -> bool {
        let before = self.constant;
        if before == Constant::Body && reply.same != self.first.same {
            self.constant = Constant::Length;
        }
        if self.constant == Constant::Length && reply.same.len() != self.first.same.len() {
            self.constant = Constant::Nothing;
        }
        self.constant != before
    }

    pub fn is_constant(&self) -> bool {
        self.constant == Constant::Body
    }

    /// The next answer could still change what is known.
    pub fn has_a_length(&self) -> bool {
        self.constant == Constant::Length
    }

    pub fn is_like(&self, reply: &Reply) -> bool {
        reply.status == self.first.status && reply.same == self.first.same
    }

    pub fn reply(&self) -> &Reply {
        &self.first
    }

    /// What every body of a server must be that gave this answer at its start.
    pub fn expect(&self, at_start: Option<&Reply>) -> Option<ExpectedBody> {
        let of_any_start = Some(&self.first).filter(|first| first.same == first.body);
        let like = at_start.or(of_any_start)?;
        match self.constant {
            Constant::Body => Some(ExpectedBody::of(&like.body)),
            Constant::Length => Some(ExpectedBody { hash: None, ..ExpectedBody::of(&like.body) }),
            Constant::Nothing => None,
        }
    }

    /// For the record, where it says anything of later answers.
    pub fn answer(&self) -> Option<Answer> {
        let first = &self.first;
        self.is_constant().then(|| Answer {
            status: first.status,
            length: first.body.len() as u64,
            hash: drom_load::body_hash(&first.body),
            content_type: first.content_type.clone(),
        })
    }
}

/// How the slice says what was checked.
pub fn checked(expected: Option<ExpectedBody>) -> &'static str {
    match expected {
        Some(ExpectedBody { hash: Some(_), .. }) => "body",
        Some(_) => "length",
        None => "status",
    }
}

/// Enough of a body to know it by, quoted.
pub fn beginning(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(120)]).into_owned();
    format!("{text:?}")
}

/// An answer for a message.
pub fn told(reply: &Reply) -> String {
    format!("{} bytes, status {}: {}", reply.body.len(), reply.status, beginning(&reply.body))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(body: &str, same: &str) -> Reply {
        Reply { status: 200, content_type: String::new(), body: body.into(), same: same.into() }
    }

    #[test]
    fn a_port_of_its_own_leaves_a_body_constant() {
        let mut known = Known::of(reply("at :8001", "at :{port}"));
        assert!(!known.see(&reply("at :43210", "at :{port}")) && known.is_constant());
        let start = reply("at :43210", "at :{port}");
        assert_eq!(known.expect(Some(&start)), Some(ExpectedBody::of(b"at :43210")));
        assert_eq!(known.expect(None), None, "another start has another port");
    }

    #[test]
    fn what_differs_is_checked_by_its_length_as_long_as_that_is_the_same() {
        let mut known = Known::of(reply("9:59", "9:59"));
        assert_eq!(known.expect(None).map(|e| e.hash.is_some()), Some(true));
        assert!(known.see(&reply("9:58", "9:58")) && known.answer().is_none());
        assert_eq!(known.expect(None), Some(ExpectedBody { length: 4, hash: None }));
        assert!(known.see(&reply("10:00", "10:00")) && known.expect(None).is_none());
        assert!(!known.see(&reply("9:59", "9:59")), "nothing comes back");
    }
}
