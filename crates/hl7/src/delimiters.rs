//! The separators a message declares in MSH-1 and MSH-2 (HL7 v2.5.1 §2.5.4).

/// Separators and escape character of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delimiters {
    /// MSH-1.
    pub field: u8,
    /// First character of MSH-2.
    pub component: u8,
    /// Second character of MSH-2.
    pub repetition: u8,
    /// Third character of MSH-2.
    pub escape: u8,
    /// Fourth character of MSH-2.
    pub subcomponent: u8,
    /// Fifth character of MSH-2 (v2.7 and later): marks truncated values.
    pub truncation: Option<u8>,
}

/// MSH-1 or MSH-2 can't separate anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DelimitersError {
    /// A separator is a letter, a digit, white space, a control character or no ASCII.
    #[error("MSH-1 and MSH-2 must be ASCII punctuation")]
    NotPunctuation,
    /// The same character stands for two things.
    #[error("MSH-1 and MSH-2 name the same character twice")]
    Repeated,
    /// MSH-2 has no character or more than five.
    #[error("MSH-2 must have one to five characters")]
    Count,
}

impl Default for Delimiters {
    /// `|^~\&`, as the standard recommends.
    fn default() -> Self {
        Self { field: b'|', component: b'^', repetition: b'~', escape: b'\\', subcomponent: b'&', truncation: None }
    }
}

impl Delimiters {
    /// Reads the separators from MSH-1 and the text of MSH-2. Characters that MSH-2 leaves out are the recommended ones.
    pub fn read(field: u8, encoding_characters: &str) -> Result<Self, DelimitersError> {
        let given = encoding_characters.as_bytes();
        if given.is_empty() || given.len() > 5 {
            return Err(DelimitersError::Count);
        }
        if !field.is_ascii_punctuation() || !given.iter().all(u8::is_ascii_punctuation) {
            return Err(DelimitersError::NotPunctuation);
        }
        let default = Self::default();
        let at = |i: usize, recommended: u8| given.get(i).copied().unwrap_or(recommended);
        let read = Self {
            field,
            component: at(0, default.component),
            repetition: at(1, default.repetition),
            escape: at(2, default.escape),
            subcomponent: at(3, default.subcomponent),
            truncation: given.get(4).copied(),
        };
        let used = [read.field, read.component, read.repetition, read.escape, read.subcomponent];
        let used = || used.into_iter().chain(read.truncation);
        let repeated = used().enumerate().any(|(i, one)| used().take(i).any(|other| other == one));
        if repeated { Err(DelimitersError::Repeated) } else { Ok(read) }
    }

    /// MSH-2 as these separators are written.
    pub fn encoding_characters(&self) -> String {
        [self.component, self.repetition, self.escape, self.subcomponent]
            .into_iter()
            .chain(self.truncation)
            .map(char::from)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_to_five_characters_are_read_in_their_order() {
        assert_eq!(Delimiters::read(b'|', "^~\\&"), Ok(Delimiters::default()));
        assert_eq!(Delimiters::read(b'|', "^~\\&#").unwrap().truncation, Some(b'#'));
        assert_eq!(Delimiters::read(b'|', "^~\\").unwrap().subcomponent, b'&');
        assert_eq!(Delimiters::read(b'*', "$~\\&").unwrap().component, b'$');
    }

    #[test]
    fn what_cannot_separate_is_refused() {
        assert_eq!(Delimiters::read(b'|', ""), Err(DelimitersError::Count));
        assert_eq!(Delimiters::read(b'|', "^~\\&#!"), Err(DelimitersError::Count));
        assert_eq!(Delimiters::read(b'|', "^^\\&"), Err(DelimitersError::Repeated));
        assert_eq!(Delimiters::read(b'^', "^~\\&"), Err(DelimitersError::Repeated));
        assert_eq!(Delimiters::read(b'A', "^~\\&"), Err(DelimitersError::NotPunctuation));
        assert_eq!(Delimiters::read(b'|', "é"), Err(DelimitersError::NotPunctuation));
    }
}
