//! Which answers the sender asks for: MSH-15 and MSH-16, HL7 table 0155 (HL7 v2.5.1 §2.9.2, §2.9.3).

use crate::ack::AckCode;
use crate::message::Message;

/// When an answer is wanted (HL7 table 0155).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// AL
    Always,
    /// NE
    Never,
    /// ER
    OnError,
    /// SU
    OnSuccess,
}

impl Condition {
    /// Whether an answer with this code is wanted.
    pub fn holds(self, code: AckCode) -> bool {
        let positive = matches!(code, AckCode::AA | AckCode::CA);
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::OnError => !positive,
            Self::OnSuccess => positive,
        }
    }
}

/// The answers of enhanced mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requested {
    /// MSH-15: the commit acknowledgement, CA CE CR. Empty is never.
    pub accept: Condition,
    /// MSH-16: the application acknowledgement, AA AE AR. Empty is never.
    pub application: Condition,
}

/// What MSH-15 and MSH-16 ask for; `None` is original mode, where both are empty and one of AA, AE and AR is due. A code
/// that the table does not have is read as always: an answer too many hurts less than one too few.
pub fn requested(message: &Message<'_>) -> Option<Requested> {
    let msh = message.segment("MSH")?;
    let field = |n: usize| {
        let element = msh.field(n).component(1);
        element.is_valued().then(|| element.text().trim().to_ascii_uppercase())
    };
    let condition = |text: Option<String>| match text.as_deref() {
        None | Some("NE") => Condition::Never,
        Some("ER") => Condition::OnError,
        Some("SU") => Condition::OnSuccess,
        Some(_) => Condition::Always,
    };
    let (accept, application) = (field(15), field(16));
    if accept.is_none() && application.is_none() {
        return None;
    }
    Some(Requested { accept: condition(accept), application: condition(application) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(msh_15: &str, msh_16: &str) -> Option<Requested> {
        let text = format!("MSH|^~\\&||||||||||2.5|||{msh_15}|{msh_16}\r");
        requested(&Message::parse(&text).unwrap())
    }

    #[test]
    fn both_empty_is_original_mode() {
        assert_eq!(of("", ""), None);
        assert_eq!(of("\"\"", "^"), None);
        assert_eq!(requested(&Message::parse("MSH|^~\\&|").unwrap()), None);
    }

    #[test]
    fn conditions_of_table_0155() {
        assert_eq!(of("AL", "NE"), Some(Requested { accept: Condition::Always, application: Condition::Never }));
        assert_eq!(of("", "er"), Some(Requested { accept: Condition::Never, application: Condition::OnError }));
        assert_eq!(of("SU", "?"), Some(Requested { accept: Condition::OnSuccess, application: Condition::Always }));
        let codes = [AckCode::AA, AckCode::CA, AckCode::AE, AckCode::CR];
        assert_eq!(codes.map(|code| Condition::OnError.holds(code)), [false, false, true, true]);
        assert_eq!(codes.map(|code| Condition::OnSuccess.holds(code)), [true, true, false, false]);
        assert_eq!(codes.map(|code| Condition::Always.holds(code)), [true; 4]);
        assert_eq!(codes.map(|code| Condition::Never.holds(code)), [false; 4]);
    }
}
